"""Hosts whose disks are full, whose probes fail, or on which work was broken off or undone by hand.

What was due is done by the next apply, and what was not seen is never taken for what was wanted.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from itertools import cycle
from shlex import quote
from typing import Any

import pytest

from tests.harness.yard import Said
from tests.lab.breaking import full, login_takes, read_only, wedged, without_inodes
from tests.lab.colony import ALLOCATIONS, Colony, allocation, wait_until
from tests.lab.console import console
from tests.planner import fleet as paper

pytestmark = pytest.mark.lab

ENDS = {
    name: paper.allocation(name, node=node) for name, node in {"end3": "c3", "end4": "c2"}.items()
}
BEGINS = {
    name: paper.allocation(name, node=node)
    for name, node in {"new2": "c2", "new3": "c3", "new4": "c2", "new5": "c2"}.items()
}
SOUND = "nlp/bert"
CARDS = "/etc/gpuaas-standin/gpus.csv"
PEOPLE = cycle((["bo"], ["bo", "dana"]))
SWEEP = cycle((["ana", "cem"], ["ana"]))


@pytest.fixture(scope="module", autouse=True)
def allocations(colony: Colony) -> Iterator[None]:
    given = colony.change(*ENDS.values())
    assert given.code == 0, given.document["problems"]
    yield
    more = [one for one in (*ENDS.values(), *BEGINS.values()) if colony.file(one).exists()]
    back = colony.change(*map(allocation, ALLOCATIONS), but=more)
    assert back.code == 0, back.document["problems"]
    assert set(colony.refs) == set(ALLOCATIONS)
    colony.rests()


def hit(colony: Colony, *documents: Mapping[str, Any], but: tuple[str, ...] = ()) -> Said:
    """An apply of this, and of somebody who is let in on the sound host, whatever happens."""
    sound = allocation(SOUND, access=next(PEOPLE))
    done = colony.change(sound, *documents, but=[ENDS[name] for name in but])
    assert f"allocation/{SOUND}" in done.document["result"]["done"]
    assert done.code == 1
    return done


def codes(done: Said) -> dict[str, str]:
    """Ref → code, of whatever went wrong."""
    return {
        p["ref"].removeprefix("allocation/vision/"): p["code"] for p in done.document["problems"]
    }


def put_right(colony: Colony, begins: tuple[str, ...], ends: tuple[str, ...] = ()) -> None:
    done = colony.apply()
    assert done.code == 0, done.document["problems"]
    assert not {f"vision/{name}" for name in ends} & set(colony.refs)
    for name in begins:
        entered = colony.enter(f"vision/{name}", "ana", "id -un")
        assert entered.stdout.strip() == colony.recorded(f"allocation/vision/{name}").login


def state_of(colony: Colony, name: str) -> str:
    (state,) = [state for ref, state in colony.claims.items() if f"/{name}@" in ref]
    return state


def descriptors(colony: Colony, node: str) -> list[str]:
    """Ids; each of them is whole, and nothing else lies there."""
    place = "/etc/gpuaas/allocations"
    texts = console(
        colony.machines[node], f"cd {place}; for f in $(ls -A); do cat $f; printf '\\0'; done"
    )
    return [json.loads(text)["id"] for text in texts.split("\0") if text]


def test_no_room_on_a_host_and_a_disk_that_takes_nothing(colony: Colony) -> None:
    """F-STA-05, F-STA-04: who comes waits on their own claim, who goes is not gone."""
    c2, c3 = colony.machines["c2"], colony.machines["c3"]
    before = {node: descriptors(colony, node) for node in ("c2", "c3")}
    with full(c2, "/etc"), read_only(c3, "/etc"):
        done = hit(colony, BEGINS["new2"], BEGINS["new3"], but=("end3",))
        assert codes(done).keys() == {"new2", "new3", "end3"}
        assert "No space left on device" in done.messages
        assert "Read-only file system" in done.messages
        assert {state_of(colony, name) for name in ("new2", "new3")} == {"held"}
        assert state_of(colony, "end3") == "cleanup_blocked"
        assert {node: descriptors(colony, node) for node in before} == before
    put_right(colony, ("new2", "new3"), ("end3",))


def test_no_inodes_and_no_room_to_save_what_is_there(colony: Colony) -> None:
    """F-STA-05, rule 6: a host that cannot be put back is not touched, and holds up nobody."""
    c2, c3 = colony.machines["c2"], colony.machines["c3"]
    console(c3, "echo '# by hand' >> /etc/sysctl.d/60-gpuaas.conf")
    assert "node/c3" in colony.plan("--refresh").actions
    with without_inodes(c2, "/etc/gpuaas"), full(c3, "/var/lib/gpuaas"):
        done = hit(colony, BEGINS["new4"])
        assert codes(done) == {"new4": "verb_failed", "node/c3": "prepare_refused"}
        assert "No space left on device" in done.messages
        assert "cannot be saved" in done.messages and "nothing was touched" in done.messages
        assert not console(c3, "ls -A /var/lib/gpuaas | grep prepare || true")
    put_right(colony, ("new4",))
    assert "by hand" not in console(c3, "cat /etc/sysctl.d/60-gpuaas.conf")


LIMIT = "systemctl show --property=MemoryMax --value user-{uid}.slice"
BROKEN_OFF = "pkill -9 -x python3; pkill -9 -f '^/bin/sh /usr/bin/systemctl' || true"
"""Our code, and with it the order that it was about to give."""


def test_a_change_that_was_written_and_not_taken_up_is_taken_up(colony: Colony) -> None:
    """F-ANS-05: killed between the file of a slice and systemd's reading of it; the file is as it
    should be by then, and an open session is held to it only after the next apply.
    """
    c2, one = colony.machines["c2"], colony.recorded("allocation/vision/sweep")
    uid = int(console(c2, f"id -u {one.login}"))
    drop_in, asked = f"/etc/systemd/system/user-{uid}.slice.d/60-gpuaas.conf", LIMIT.format(uid=uid)
    wanted = console(c2, asked)
    with colony.session("vision/sweep", "ana"):
        other = f"sed -i s/^MemoryMax=.*/MemoryMax=1G/ {drop_in}; systemctl daemon-reload"
        assert console(c2, f"{other}; {asked}") == f"{1 << 30}\n" != wanted
        broken_off = lambda: console(c2, BROKEN_OFF)  # noqa: E731
        with wedged(c2, "/usr/bin/systemctl", broken_off, when="daemon-reload"):
            done = hit(colony, allocation("vision/sweep", access=next(SWEEP)))
        assert codes(done) == {"node/c2": "ansible_failed"}
        assert "MemoryMax=1G" not in console(c2, f"cat {drop_in}")
        assert console(c2, asked) == f"{1 << 30}\n"
        assert colony.apply().code == 0
        assert console(c2, asked) == wanted


APPLY = """
import sys
from reconciler.cli.main import run
sys.exit(run(["-C", sys.argv[1], "apply", "--auto-approve=destroys"]))
"""


def test_what_sshd_was_to_read_is_read_by_the_next_apply(colony: Colony) -> None:
    """F-ANS-05, F-STA-07: the control machine dies when sshd's new file is written and not read."""
    c3, config = colony.machines["c3"], "/etc/ssh/sshd_config.d/10-gpuaas.conf"
    spoilt = f"echo '    ForceCommand echo spoilt' >> {config}; systemctl reload ssh"
    console(c3, spoilt)
    # Whoever comes while sshd reads its files anew may find nobody.
    wait_until(lambda: colony.enter("vision/desk", "cem", "echo fine").stdout == "spoilt\n")
    assert "node/c3" in colony.plan("--refresh").actions
    control = colony.python(APPLY)

    def dies() -> None:
        control.send_signal(signal.SIGKILL)
        control.communicate()
        console(c3, BROKEN_OFF)

    with wedged(c3, "/usr/bin/systemctl", dies, when="try-reload-or-restart"):
        pass
    assert "spoilt" not in console(c3, f"cat {config}")
    # Whoever comes while sshd reads its files anew may find nobody.
    wait_until(lambda: colony.enter("vision/desk", "cem", "echo fine").stdout == "spoilt\n")
    assert colony.apply().code == 0
    assert colony.enter("vision/desk", "cem", "echo fine").stdout == "fine\n"


def test_no_tenant_can_hold_up_the_platform(colony: Colony) -> None:
    """Locks of ours are not theirs to open: whoever opens one may hold it for ever."""
    hold = "for lock in /run/gpuaas*.lock; do echo $lock; flock --shared $lock true; done"
    tried = colony.enter("vision/desk", "cem", hold)
    assert len(tried.stdout.split()) == tried.stderr.count("Permission denied") == 4


def test_a_host_that_started_anew_is_looked_at_before_anybody_comes(colony: Colony) -> None:
    """Rule 7, F-PLC-03: evidence of another boot is none; the next apply has the new one."""
    colony.machines["c2"].reboot()
    done = colony.change(BEGINS["new5"])
    assert (done.code, done.problems) == (0, []), done.messages
    assert state_of(colony, "new5") == "held"
    put_right(colony, ("new5",))


def test_a_driver_that_says_nothing_and_a_host_that_is_slow(colony: Colony) -> None:
    """F-PLC-02, F-PLC-04: nothing is placed or freed by silence; who is slow is served."""
    c2, c3 = colony.machines["c2"], colony.machines["c3"]
    more = paper.allocation("more", node="c2")
    colony.let_go("c3")
    quiet = "printf '#!/bin/sh\\n' > /usr/bin/nvidia-smi"
    console(c2, f"cp -p /usr/bin/nvidia-smi /opt/; {quiet}")
    assert colony.plan("--refresh").code == 0
    with login_takes(c3, 3):
        try:
            done = hit(colony, more, allocation("nlp/tok", access=["dana", "bo"]), but=("end4",))
        finally:
            console(c2, "mv /opt/nvidia-smi /usr/bin/nvidia-smi")
            colony.remove(more)
            colony.commit()
    assert done.blocked == {"allocation/vision/more": "sku_unavailable"}
    assert codes(done).keys() == {"end4"}
    assert "cleanup_blocked" in done.problems and "not seen" in done.messages
    assert state_of(colony, "end4") == "cleanup_blocked"
    rows = colony.gpuaas("status").document["result"]["allocations"]
    health = {row["ref"]: row["health"] for row in rows}
    assert health["allocation/vision/sweep"] == "unknown"
    assert colony.enter("nlp/tok", "bo", "true").returncode == 0
    put_right(colony, (), ("end4",))


def test_whatever_is_changed_by_hand_is_found_and_what_is_ours_is_put_right(
    colony: Colony,
) -> None:
    """F-ANS-14, STM-07, STM-08: a key file, a unit, a link, an env file, a mount are made again;
    another driver and what could not be checked are told; what people have done in their own homes
    stays. A look writes nothing.
    """
    c3 = colony.machines["c3"]
    desk, tok = (colony.recorded(f"allocation/{ref}") for ref in ("vision/desk", "nlp/tok"))
    shm = f"/var/lib/gpuaas/instances/shm/{tok.login}"
    unit = console(c3, f"systemd-escape --path --suffix=mount {shm}").strip()
    files = {
        "key": f"/etc/gpuaas/ssh/{desk.login}",
        "env": f"/etc/gpuaas/runtime/allocations/{desk.id}.env",
        "unit": f"/etc/systemd/system/{unit}",
    }
    link = f"/etc/systemd/system/local-fs.target.wants/{unit}"
    made = console(c3, f"sha256sum {' '.join(map(quote, files.values()))}")
    console(c3, "".join(f"echo '# by hand' >> {quote(path)}; " for path in files.values()))
    console(c3, f"rm {quote(link)}; umount {shm}; systemctl daemon-reload")
    console(c3, f"chmod 755 /home/{desk.login}; cp -p {CARDS} /opt/")
    console(c3, f"sed -i 's/[0-9.]*-standin/999.1-standin/' {CARDS}")
    console(c3, "chmod a-x /usr/sbin/sshd")
    before = colony.tree("c3")
    found = colony.plan("--refresh", "--detailed-exitcode")
    try:
        wrong = {"allocation/vision/desk": "repair", "allocation/nlp/tok": "repair"}
        assert (found.code, found.actions) == (4, wrong)
        told = {ref: found.change(ref)["facts"]["drift"] for ref in wrong}
        assert f"{files['key']} on c3 has other content" in told["allocation/vision/desk"]
        assert f"{files['env']} on c3 has other content" in told["allocation/vision/desk"]
        escaped = unit.replace("\\", "\\\\")
        where = "/etc/systemd/system"
        assert told["allocation/nlp/tok"].split("; ") == [
            f"{where}/local-fs.target.wants/{escaped} on c3 is gone",
            f"{where}/{escaped} on c3 has other content",
            f"shm {tok.login} on c3 is gone",
        ]
        notes = {(n["ref"], n["topic"]) for n in found.plan["notes"]}
        assert ("allocation/vision/desk", "unchecked") in notes, "nobody was asked who may log in"
        assert {one for one in notes if one[0].startswith("node/") or one[1] != "unchecked"} == {
            ("allocation/vision/desk", "user"),
            ("node/c3", "evidence"),
            ("node/c3", "unchecked"),
        }
        assert colony.tree("c3") == before
        assert colony.gpuaas("drift").code == 4
        assert colony.tree("c3") == before
    finally:
        console(c3, "chmod a+x /usr/sbin/sshd")
    try:
        done = colony.apply("--auto-approve")
        assert done.code == 0, done.document["problems"]
        assert console(c3, f"sha256sum {' '.join(map(quote, files.values()))}") == made
        assert console(c3, f"findmnt --noheadings --output FSTYPE {shm}").strip() == "tmpfs"
        assert console(c3, f"stat --format=%a /home/{desk.login}").strip() == "755"
        left = colony.plan("--refresh", "--detailed-exitcode")
        assert (left.code, left.actions) == (4, {})
        assert sorted(n["topic"] for n in left.plan["notes"]) == ["evidence", "user"]
    finally:
        console(c3, f"chmod 700 /home/{desk.login}; cp -p /opt/{CARDS.rpartition('/')[2]} {CARDS}")
    colony.rests()
