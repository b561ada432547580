"""The end of an allocation: asked for, proved on its host, and free only after that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.harness.yard import Said
from tests.lab.colony import ALLOCATIONS, Colony
from tests.planner import fleet as paper

pytestmark = pytest.mark.lab

ENDS = ("short", "walled", "back", "objects", "files")
SHORT = {name: paper.allocation(name, node="c2") for name in ENDS}
"""On the host that has most room; each ends in a way of its own."""

LIFE = """
set -eu
echo work > ~/work; echo work > /tmp/work; echo work > /dev/shm/work
ipcmk --shmem 4096; ipcmk --queue
systemd-run --user --quiet sleep 600
trap '' TERM; setsid sleep 600 > /dev/null 2>&1 < /dev/null &
"""
OBJECT = """
import ctypes, struct, sys, time
libc, about = ctypes.CDLL(None), ctypes.create_string_buffer(256)
while True:
    if libc.shmget(4242, 4096, 0) < 0:
        number = libc.shmget(4242, 4096, 0o1600)
        libc.shmctl(number, 2, about)
        struct.pack_into("I", about, 4, int(sys.argv[1]))
        libc.shmctl(number, 1, about)
    time.sleep(0.02)
"""
"""As root: whoever removes this object of the uid finds the next one."""


@pytest.fixture(scope="module", autouse=True)
def allocations(colony: Colony) -> Iterator[None]:
    """Five more, each of ana's, beside those that stay."""
    given = colony.change(*SHORT.values())
    assert given.code == 0, given.document["problems"]
    yield
    assert set(colony.refs) == set(ALLOCATIONS)
    colony.rests()


def uid_of(colony: Colony, name: str) -> int:
    login = colony.recorded(f"allocation/vision/{name}").login
    return int(colony.machines["c2"].run("id", "-u", login).stdout)


def everything_of(colony: Colony, uid: int, login: str) -> str:
    """What an operator would look for, by ways of their own."""
    return (
        colony.machines["c2"]
        .run(
            f"getent passwd {login} {uid}; ps -o pid=,args= -U {uid};"
            f" awk '$8 == {uid} || $9 == {uid}' /proc/sysvipc/shm;"
            f" awk '$8 == {uid} || $9 == {uid}' /proc/sysvipc/msg;"
            f" find / -xdev \\( -uid {uid} -o -name '*{login}*' \\) -not -path '/proc/*';"
            f" find /dev/shm /dev/mqueue /run -uid {uid}; ls -d /run/user/{uid};"
            f" systemctl list-units --no-legend 'user*{uid}*'; mount | grep {login}",
            check=False,
        )
        .stdout
    )


def test_a_release_is_taken_back_and_finds_all_of_it_again(colony: Colony) -> None:
    """Rule 12, REL-01: keys off, everything ended, nothing wiped; and a git revert restores it."""
    ref, machine = "allocation/vision/back", colony.machines["c2"]
    held, uid = colony.recorded(ref), uid_of(colony, "back")
    before = policy_of(colony)
    lived = colony.enter("vision/back", "ana", "bash -s", LIFE)
    assert lived.returncode == 0, lived.stderr
    machine.run("loginctl", "enable-linger", held.login)
    assert machine.run(f"ps -o pid= -U {uid}", check=False).stdout.split()
    undo = {**before, "spec": {**before["spec"], "release": {"undoMinutes": 60}}}
    shut = colony.change(undo, but=[SHORT["back"]])
    assert shut.code == 0, shut.document["problems"]
    assert colony.recorded(ref).phase == "quarantined"
    assert machine.run(f"ps -o pid= -U {uid}; ls /var/lib/systemd/linger", check=False).stdout == ""
    assert colony.enter("vision/back", "ana", "true").returncode == 255
    assert machine.run(f"cat /home/{held.login}/work").stdout == "work\n"
    assert held.slots[0] not in free(colony)

    back = colony.change(before, SHORT["back"])
    assert back.code == 0, back.document["problems"]
    assert back.actions[ref] == "restore"
    assert colony.recorded(ref).id == held.id
    again = colony.enter("vision/back", "ana", "cat ~/work /tmp/work")
    assert (again.returncode, again.stdout) == (0, "work\nwork\n")
    colony.rests()


def policy_of(colony: Colony) -> dict[str, Any]:
    """As it lies in git."""
    found: dict[str, Any] = yaml.safe_load(colony.file(paper.policy()).read_text())
    return found


def test_a_release_asks_and_the_slot_is_free_after_the_proof(colony: Colony) -> None:
    """ACC-11, F-PLC-04: nothing of it is left, and the proof of that stands first."""
    held = colony.recorded("allocation/vision/short")
    uid = uid_of(colony, "short")
    lived = colony.enter("vision/short", "ana", "bash -s", LIFE)
    assert lived.returncode == 0, lived.stderr
    assert len(everything_of(colony, uid, held.login).splitlines()) > 10
    colony.remove(SHORT["short"])
    colony.commit()

    shown = colony.shell("plan", "--detailed-exitcode")
    assert shown.returncode == 2
    assert "RELEASE (1)" in shown.stdout and "destroys, asks" in shown.stdout
    assert "revoke > wipe > proof > free" in shown.stdout
    asked = colony.shell("apply")
    assert asked.returncode == 5 and "[nobody_to_ask]" in asked.stderr
    safe = colony.apply("--auto-approve")
    assert (safe.code, safe.blocked) == (5, {"allocation/vision/short": "held_for_approval"})
    assert colony.enter("vision/short", "ana", "true").returncode == 0, "nothing was done yet"

    done = colony.apply("--auto-approve=destroys")
    assert done.code == 0, done.document["problems"]
    assert everything_of(colony, uid, held.login) == ""
    ((passed, checks),) = proofs(colony, held.id)
    assert passed and f"none of uid {uid}" in checks
    claims = "SELECT state, proof IS NOT NULL, freed_at >= since FROM claim WHERE allocation_id = ?"
    assert colony.rows(claims, held.id) == [("freed", 1, 1)]
    assert "vision/short" not in colony.refs
    assert held.slots[0] in free(colony)


def test_a_release_is_proved_on_a_host_that_is_prepared_anew_meanwhile(colony: Colony) -> None:
    """ACC-11, F-PLC-04: the look that judges the walls must not hide what was looked for."""
    held = colony.recorded("allocation/vision/walled")
    colony.machines["c2"].run("echo '# by hand' >> /etc/sysctl.d/60-gpuaas.conf")
    assert colony.plan("--refresh").code == 0
    done = released(colony, "walled")
    assert done.code == 0, done.document["problems"]
    assert {"allocation/vision/walled", "node/c2"} <= done.actions.keys()
    assert [passed for passed, _ in proofs(colony, held.id)] == [1]
    assert held.slots[0] in free(colony)


def proofs(colony: Colony, id: str) -> list[tuple[int, str]]:
    return colony.rows("SELECT passed, checks FROM proof WHERE allocation_id = ? ORDER BY at", id)


def free(colony: Colony) -> set[str]:
    slots = colony.gpuaas("slot", "list").document["result"]
    return {one["slot"] for one in slots if one["node"] == "c2" and one["state"] == "free"}


def test_a_process_an_object_or_a_file_that_is_left_keeps_its_slot(colony: Colony) -> None:
    """F-PLC-04, F-PLC-05: each keeps its own slot, by name, until it is gone, and nobody else's."""
    host, left = colony.machines["c2"], ("back", "objects", "files")
    held = {name: colony.recorded(f"allocation/vision/{name}") for name in left}
    uids = {name: uid_of(colony, name) for name in left}
    comes_back = f"systemd-run --quiet --unit=back --uid={uids['back']} -p Restart=always"
    host.run(f"{comes_back} -p RestartSec=10ms -p StartLimitBurst=0 sleep 600")
    host.run(f"systemd-run --quiet --unit=objects python3 -c '{OBJECT}' {uids['objects']}")
    host.run(f"echo left > /opt/left && chown {uids['files']} /opt/left")

    blocked = released(colony, *left)
    assert blocked.code == 1
    assert set(blocked.problems) == {"processes_left", "cleanup_blocked"}
    why = {p["ref"].split("/")[-1]: p["message"] for p in blocked.document["problems"]}
    assert "sleep" in why["back"] and "shm" in why["objects"] and "/opt/left" in why["files"]
    told = colony.shell("status").stdout
    assert all(f"vision/{name}" in told for name in left)
    assert told.count("cleanup_blocked") and all(word in told for word in ("sleep", "/opt/left"))
    assert not free(colony) & {one.slots[0] for one in held.values()}

    host.run("systemctl stop back")
    assert colony.apply().code == 1
    assert free(colony) & {one.slots[0] for one in held.values()} == set(held["back"].slots)
    host.run("systemctl stop objects && rm /opt/left")
    last = colony.apply()
    assert last.code == 0, last.document["problems"]
    assert {one.slots[0] for one in held.values()} <= free(colony)
    for name, one in held.items():
        assert [passed for passed, _ in proofs(colony, one.id)][-1:] == [1], name
        assert everything_of(colony, uids[name], one.login) == ""


def released(colony: Colony, *names: str) -> Said:
    return colony.change(but=[SHORT[name] for name in names])
