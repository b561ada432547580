"""Durable storage on two real hosts: what is written in one allocation is there in the next.

One story, told in order: each test begins where the one before it ended.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.harness.spoilt_files import unguarded
from tests.lab.colony import Colony, as_person, founded
from tests.lab.host import Host
from tests.lab.test_fleet_rebuild import lose
from tests.planner import fleet as paper

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("storage")]

Fresh = Callable[..., AbstractContextManager[tuple[Host, ...]]]
TRAIN, EVAL, NEXT = "vision/train", "vision/eval", "vision/next"
SHARED, DISKS = "/srv/shared", "/srv/disks"

DATA = paper.storage("data", "disk", protect=False)
TEAM = paper.storage("team", "share", protect=False)
NOTES = paper.storage("notes", "fast", protect=False)


def with_storage(name: str, node: str, *storage: tuple[str, str], **changes: Any) -> Any:
    attached = [{"name": one, "mountPath": path, "mode": "rw"} for one, path in storage]
    spec = {"node": node, "owner": "ana", "access": ["ana", "cem"], "storage": attached}
    return paper.allocation(name, **{**spec, **changes})


FIRST = with_storage("train", "h1", ("data", "/data/set"), ("team", "/workspace"))
OTHER = with_storage("eval", "h2")
HEIR = with_storage("next", "h1", ("data", "/datasets"), owner="cem")


@pytest.fixture(scope="module")
def story(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colony]:
    """Two hosts that share a folder, as they would share what a server exports."""
    shared = tmp_path_factory.mktemp("shared")
    with fresh_hosts(2, {shared: SHARED}) as hosts:
        classes = ["disk", "fast", "nas", "share"]
        project = {
            "entitlements": {"skus": ["slice-1"], "storageClasses": classes},
            "quota": {"gpus": 8, "storageGiB": 10},
        }
        fleet = (
            paper.storage_class("disk", loop={"path": DISKS}),
            paper.storage_class("fast", loop={"path": DISKS, "filesystem": "xfs"}),
            paper.storage_class("nas", nfs={"server": "10.77.0.1", "export": "/srv/nas"}),
            paper.storage_class("share", directory={"path": SHARED, "shared": True}),
            paper.project("vision", "ana", "cem", **project),
        )
        machines = dict(zip(("h1", "h2"), hosts, strict=True))
        colony = founded(tmp_path_factory.mktemp("storage"), machines, *fleet)
        colony.enrol()
        yield colony


def test_what_is_written_lies_on_the_volume(story: Colony) -> None:
    """STO-01, STO-03, OBJ-03: mounted where the file says, in that allocation alone."""
    story.applied(DATA, TEAM, FIRST, OTHER)
    assert story.world.volumes.keys() >= {r for r in story.world.recorded if r.kind == "storage"}
    write = (
        "umask 077; mkdir /data/set/run && echo one > /data/set/run/log; echo two > /workspace/log"
    )
    story.said(TRAIN, "ana", write)
    assert story.said(TRAIN, "cem", "cat /data/set/run/log /workspace/log") == "one\ntwo\n"
    assert story.said(EVAL, "ana", "ls -A /data /workspace") == "/data:\n\n/workspace:\n"
    mounts = story.said(TRAIN, "ana", "grep -E ' (/data/set|/workspace) ' /proc/self/mountinfo")
    assert len(mounts.splitlines()) == 2 and mounts.count("nosuid") == mounts.count("nodev") >= 2


def test_nobody_comes_to_it_by_another_way(story: Colony) -> None:
    """STO-04, F-STO-05: of the same project, and its number opens nothing that is not mounted.

    Nor is anything written where a volume is to be mounted, and is not.
    """
    (id,) = (one.id for ref, one in story.world.volumes.items() if ref.name == "team")
    places = (f"{SHARED}/{id}/data", "/gpuaas", "/var/lib/gpuaas/volumes")
    for ref, place in [(EVAL, places[0]), *((TRAIN, place) for place in places)]:
        tried = story.enter(ref, "ana", f"ls -A {place}")
        assert "Permission denied" in tried.stderr, (place, tried)
    for place in ("/data", "/datasets", "/mnt", "/workspace"):
        assert "Permission denied" in story.enter(EVAL, "ana", f"touch {place}/x").stderr


def test_what_comes_and_goes_does_so_in_open_sessions(story: Colony) -> None:
    """STO-03, STO-10, F-STO-06: for reading alone where that was asked for, never while busy."""
    spec = {**FIRST["spec"]}
    spec["storage"] = [*spec["storage"], {"name": "notes", "mountPath": "/mnt/n", "mode": "ro"}]
    with shell(story, TRAIN, "ana") as do:
        assert do("ls -A /mnt") == []
        story.applied(NOTES, {**FIRST, "spec": spec})
        (seen,) = do("grep ' /mnt/n ' /proc/self/mountinfo")
        assert {"ro", "nodev", "nosuid"} <= set(seen.split()[5].split(",")) and " xfs " in seen
        (said_,) = do("touch /mnt/n/x 2>&1")
        assert "Read-only" in said_
        do("cd /mnt/n")
        busy = story.change(FIRST)
        (pid,) = do("echo $$")
        assert busy.code == 1 and "storage_busy" in busy.problems and f" {pid} " in busy.messages
        assert do("pwd; grep -c ' /mnt/n ' /proc/self/mountinfo") == ["/mnt/n", "1"]
        do("cd /")
        assert story.apply().code == 0
        assert do("ls -A /mnt; cat /data/set/run/log") == ["one"]


ASIDE = """
    mkdir -p /mnt/n/part
    nohup unshare -Urm --propagation slave sh -c '
        mount --bind /mnt/n/part /var/tmp && touch ~/aside && exec sleep 600
    ' > ~/said 2>&1 < /dev/null &
    for i in $(seq 100); do test -e ~/aside && exit; sleep 0.1; done; cat ~/said; exit 1
"""


def test_what_a_tenant_keeps_aside_is_not_let_go_of(story: Colony) -> None:
    """F-STO-06, STO-10: what it mounts itself its host unmounts nowhere, and is told of.

    Nor is it written that somebody only reads who may still write by that.
    """
    (id,) = (one.id for ref, one in story.world.volumes.items() if ref.name == "notes")
    storage, holders = FIRST["spec"]["storage"], f"cat {DISKS}/{id}/holders/*"
    notes = {
        mode: {**FIRST, "spec": {**FIRST["spec"], "storage": [*storage, one]}}
        for mode in ("rw", "ro")
        for one in [{"name": "notes", "mountPath": "/mnt/n", "mode": mode}]
    }
    story.applied(notes["rw"])
    story.said(TRAIN, "ana", ASIDE)
    for wanted in (notes["ro"], FIRST):
        busy = story.change(wanted)
        assert busy.code == 1 and "storage_busy" in busy.problems and "mounted" in busy.messages
        assert '"mode": "rw"' in story.machines["h1"].run(holders).stdout
    story.said(TRAIN, "ana", "pkill sleep; rm ~/aside")
    story.applied(notes["ro"])
    assert '"mode": "ro"' in story.machines["h1"].run(holders).stdout
    story.applied(FIRST)


def test_what_vanishes_is_missed_and_takes_nothing(story: Colony) -> None:
    """F-STO-05: its place takes no writes, it is drift until it is mounted again.

    F-STO-04: and no host mounts it by itself for whom it was taken from meanwhile.
    """
    host = story.machines["h1"]
    (id,) = (one.id for ref, one in story.world.volumes.items() if ref.name == "team")
    units = "cd /etc/systemd/system && systemctl {} $(grep -l storage/vision/team *.mount)"
    host.run(units.format("stop"))
    assert "Permission denied" in story.enter(TRAIN, "ana", "touch /workspace/x").stderr
    assert story.plan("--refresh").plan["counts"] == {"to repair": 1}
    host.run(f"mv {SHARED}/{id}/holders/* /srv/")
    host.run(units.format("start"))
    assert "Permission denied" in story.enter(TRAIN, "ana", "touch /workspace/x").stderr
    assert story.apply().code == 0
    assert story.said(TRAIN, "ana", "cat /workspace/log") == "two\n"


def test_the_size_of_a_disk_is_a_limit(story: Colony) -> None:
    """A write that goes beyond it stops there, and what was written before stays."""
    fill = (
        "head -c 1200M /dev/zero > /data/set/big; echo $?; rm /data/set/big; cat /data/set/run/log"
    )
    assert story.said(TRAIN, "ana", fill).split() == ["1", "one"]


def test_a_second_writer_is_refused_by_the_plan(story: Colony) -> None:
    """STO-04, F-STO-04: whoever has it is named; what is asked for beside it is not half done."""
    second = with_storage("eval", "h2", ("team", "/workspace"))
    refused = story.change(second)
    assert refused.code == 3 and refused.blocked == {f"allocation/{EVAL}": "writer_conflict"}
    assert TRAIN in refused.change(f"allocation/{EVAL}")["problem"]["message"]
    elsewhere = story.change(with_storage("eval", "h2", ("data", "/data")))
    assert elsewhere.blocked == {f"allocation/{EVAL}": "writer_conflict"}


def test_a_second_writer_is_refused_by_the_host(story: Colony) -> None:
    """F-STO-04: with a state that was forged, so that the planner knows nothing of the first."""
    with forged(story, "team"):
        refused = story.change(with_storage("eval", "h2", ("team", "/workspace")))
        assert refused.code == 1 and "volume_fenced" in refused.problems, refused.messages
        assert story.said(TRAIN, "ana", "cat /workspace/log") == "two\n"
        mounted = story.machines["h2"].run("findmnt", "-rn", "-o", "TARGET").stdout
        assert not [point for point in mounted.split() if point.startswith("/gpuaas/")]
    story.applied(OTHER)


@pytest.mark.slow
def test_a_share_that_does_not_come_up_is_given_up(story: Colony) -> None:
    """F-STO-09: NFS as far as this kernel goes, which has none: tried for a while, and told why.

    Nothing is left half mounted, and it can be let go of.
    """
    story.applied(OTHER)
    nas = paper.storage("nas", "nas", protect=False)
    refused = story.change(nas, with_storage("eval", "h2", ("nas", "/data")))
    assert refused.code == 1 and "volume_not_mounted" in refused.problems
    assert "nfs" in refused.messages
    host = story.machines["h2"]
    assert "Permission denied" in story.enter(EVAL, "ana", "touch /data/x").stderr
    assert "vision/nas" not in host.run("systemctl list-units --state=active").stdout
    story.applied(OTHER)
    assert "vision/nas" not in host.run("systemctl list-units --all").stdout
    assert not host.run("grep -rl vision/nas /etc/systemd/system || true").stdout


def test_it_is_mounted_again_after_a_reboot(story: Colony) -> None:
    """RST-06, STO-11: by the host itself, before anybody asks."""
    story.machines["h1"].reboot()
    assert story.said(TRAIN, "ana", "cat /data/set/run/log /workspace/log") == "one\ntwo\n"
    assert story.plan("--refresh").code == 0


def test_a_lost_state_regains_it(story: Colony) -> None:
    """F-STA-02, F-STO-03, F-STO-04: from what stands beside the data, with nothing left to do."""
    before = {one.allocation_id: one.volume for one in story.world.attachments}
    gids = story.world.counters.gids
    lose(story)
    done = story.gpuaas("state", "rebuild", "--yes")
    assert done.code == 0, done.messages
    assert {one["why"] for one in done.document["result"]["volumes"]} == {""}
    assert {one.allocation_id: one.volume for one in story.world.attachments} == before
    assert story.world.counters.gids == gids
    plan = story.plan("--refresh", "--detailed-exitcode")
    assert (plan.code, plan.actions) == (0, {})


def test_it_survives_the_allocation(story: Colony) -> None:
    """STO-01, STO-07: another account of the project reads and writes the same files."""
    story.applied(but=(FIRST,))
    story.applied(HEIR, with_storage("eval", "h2", ("team", "/mnt/team")))
    assert (
        story.said(NEXT, "cem", "cat /datasets/run/log; echo more >> /datasets/run/log") == "one\n"
    )
    assert story.said(EVAL, "ana", "cat /mnt/team/log") == "two\n"
    assert story.said(NEXT, "ana", "cat /datasets/run/log") == "one\nmore\n"


def test_deleting_takes_a_word_of_its_own(story: Colony) -> None:
    """STO-07, F-STO-03, F-STO-07: not while it is attached, not without wipe, not without a yes."""
    (id,) = (one.id for ref, one in story.world.volumes.items() if ref.name == "data")
    attached = story.change(but=(DATA,))
    assert attached.code != 0 and "dangling_reference" in attached.problems
    assert story.said(NEXT, "cem", "cat /datasets/run/log") == "one\nmore\n"
    story.applied({**DATA, "spec": {**DATA["spec"], "onDelete": "wipe"}})
    story.applied(but=(HEIR,))
    story.remove(DATA)
    story.commit()
    assert story.apply("--auto-approve").code == 5, "nobody has said yes to that"
    before = story.machines["h1"].run("ls", DISKS).stdout
    assert id in before
    assert story.apply("--auto-approve=destroys").code == 0
    assert story.machines["h1"].run("ls", DISKS).stdout == before.replace(f"{id}\n", "")


def test_what_one_host_has_wiped_the_others_forget(story: Colony) -> None:
    """STO-07: its data is gone for all, and so is each host's word of it."""
    (id,) = (one.id for ref, one in story.world.volumes.items() if ref.name == "team")
    story.applied({**TEAM, "spec": {**TEAM["spec"], "onDelete": "wipe"}}, OTHER)
    story.remove(TEAM)
    story.commit()
    assert story.apply("--auto-approve=destroys").code == 0
    look = f"ls /etc/gpuaas/volumes/{id}.json || true"
    (left,) = (name for name, host in story.machines.items() if host.run(look).stdout)
    assert id not in story.machines["h1"].run("ls", SHARED).stdout
    plan = story.plan("--refresh")
    assert plan.actions == {f"node/{left}": "change"}
    assert "storage/vision/team" in plan.change(f"node/{left}")["facts"]["forgets"]
    assert story.apply().code == 0
    assert not story.machines[left].run(look).stdout
    assert story.plan("--refresh").actions == {}


@contextmanager
def shell(colony: Colony, ref: str, key: str) -> Iterator[Callable[[str], list[str]]]:
    """A session that stays open: what each command in it says."""
    words = [*as_person(colony.line(ref), key), "sh"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as session:
        assert session.stdin is not None and session.stdout is not None
        ask, answer = session.stdin, session.stdout

        def do(command: str) -> list[str]:
            ask.write(f"{command}\necho .\n")
            ask.flush()
            return [line.rstrip("\n") for line in iter(answer.readline, ".\n")]

        try:
            yield do
        finally:
            session.kill()


@contextmanager
def forged(colony: Colony, storage: str) -> Iterator[None]:
    """A state that says of nobody that they have this storage, though a host knows better."""
    ref = f"storage/vision/{storage}"
    with unguarded(colony.folder, "attachment") as state:
        rows = state.execute("SELECT * FROM attachment WHERE storage = ?", (ref,)).fetchall()
        state.execute("DELETE FROM attachment WHERE storage = ?", (ref,))
    assert rows
    try:
        yield
    finally:
        with unguarded(colony.folder, "attachment") as state:
            state.execute("DELETE FROM attachment WHERE storage = ?", (ref,))
            state.executemany(f"INSERT INTO attachment VALUES ({', '.join('?' * 15)})", rows)
