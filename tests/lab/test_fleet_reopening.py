"""What somebody closed to all but themselves, and their next allocation, on two real hosts.

One story, told in order: each test begins where the one before it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.lab.colony import Colony, founded
from tests.lab.host import Host
from tests.lab.test_fleet_storage import shell
from tests.planner import fleet as paper

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("reopening")]

Fresh = Callable[..., AbstractContextManager[tuple[Host, ...]]]
TRAIN, PEER, NEXT = "vision/train", "vision/peer", "vision/next"
SHARED = "/srv/shared"

TEAM = paper.storage("team", "share", protect=False, accessMode="multi_writer")


def with_team(name: str, node: str, owner: str) -> Any:
    had = [{"name": "team", "mountPath": "/data/team", "mode": "rw"}]
    return paper.allocation(name, node=node, owner=owner, access=[owner], storage=had)


FIRST, COLLEAGUE = with_team("train", "h1", "ana"), with_team("peer", "h1", "cem")
HEIR = with_team("next", "h2", "ana")


@pytest.fixture(scope="module")
def story(fresh_hosts: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Colony]:
    """Two hosts that share a folder, as they would share what a server exports."""
    shared = tmp_path_factory.mktemp("shared")
    with fresh_hosts(2, {shared: SHARED}) as hosts:
        project = {
            "entitlements": {"skus": ["slice-1"], "storageClasses": ["share"]},
            "quota": {"gpus": 8, "storageGiB": 10},
        }
        share = {"path": SHARED, "shared": True}
        modes = ["single_writer", "multi_writer"]
        fleet = (
            paper.storage_class("share", directory=share, accessModes=modes, maxAttachments=4),
            paper.project("vision", "ana", "cem", **project),
        )
        machines = dict(zip(("h1", "h2"), hosts, strict=True))
        colony = founded(tmp_path_factory.mktemp("reopening"), machines, *fleet)
        colony.enrol()
        yield colony


def reopened(story: Colony, *words: str, old: str = TRAIN, new: str = NEXT) -> Any:
    given = ("--from", old, "--to", new, "--reason", "her own", "--yes")
    return story.gpuaas("storage", "reopen", "vision/team", *given, *words)


def denied(story: Colony, ref: str, key: str, command: str) -> bool:
    return "Permission denied" in story.enter(ref, key, command).stderr


def test_what_somebody_closed_stays_closed_to_them(story: Colony) -> None:
    """F-REAL-11: nobody has it afterwards, the next account of its author no more than others."""
    story.applied(TEAM, FIRST, COLLEAGUE)
    write = (
        "cd /data/team && mkdir -m 700 run && echo one > run/log && echo two > open &&"
        " chmod 600 run/log && ln run/log run/again && ln -s log run/latest"
    )
    story.said(TRAIN, "ana", write)
    story.said(PEER, "cem", "echo mine > /data/team/theirs && chmod 600 /data/team/theirs")
    assert denied(story, PEER, "cem", "cat /data/team/run/log")
    living = reopened(story, new=PEER)
    assert living.problems == ["reopen_refused"], living.messages
    story.applied(HEIR, but=(FIRST,))
    assert denied(story, NEXT, "ana", "cat /data/team/run/log")
    assert story.said(NEXT, "ana", "cat /data/team/open") == "two\n"


def test_it_opens_to_nobody_else_by_mistake(story: Colony) -> None:
    """F-REAL-11: a colleague has the storage as well, and is not whose it was."""
    others = reopened(story, new=PEER)
    assert others.problems == ["reopen_refused"] and "ana" in others.messages
    assert denied(story, PEER, "cem", "cat /data/team/run/log")


def test_by_an_operators_word_it_is_theirs_again(story: Colony) -> None:
    """F-REAL-11: read and written on another host, and no other secret opens by it."""
    done = reopened(story)
    assert done.code == 0, done.messages
    found = done.document["result"]
    # The folder, its file of two names, the link in there, and what was open anyway.
    assert (found["changed"], found["left"], found["whole"]) == (4, "", True)
    append = (
        "cat /data/team/run/latest && echo more >> /data/team/run/log && cat /data/team/run/again"
    )
    assert story.said(NEXT, "ana", append) == "one\none\nmore\n"
    assert story.said(NEXT, "ana", "stat -c %a /data/team/run/log /data/team/run") == "600\n2700\n"
    for ref, key, path in ((NEXT, "ana", "/data/team/theirs"), (PEER, "cem", "/data/team/run/log")):
        assert denied(story, ref, key, f"cat {path}")
    assert story.said(PEER, "cem", "cat /data/team/theirs /data/team/open") == "mine\ntwo\n"


def test_whoever_works_in_it_is_ended_when_it_is_forced(story: Colony) -> None:
    """STO-10: of that allocation, in that storage; its other session and its neighbour go on."""
    bare = {**HEIR, "spec": {**HEIR["spec"], "storage": []}}
    force = ("--force-detach", NEXT, "--reason", "the next run waits")
    with (
        story.session(NEXT, "ana") as elsewhere,
        shell(story, NEXT, "ana") as inside,
        shell(story, PEER, "cem") as peer,
    ):
        inside("cd /data/team && exec 3>>/data/team/run/log")
        peer("cd /data/team")
        busy = story.change(bare)
        assert busy.code == 1 and "storage_busy" in busy.problems, busy.messages
        assert story.apply("--auto-approve=safe", *force).code != 0
        done = story.apply("--auto-approve=interrupts", *force)
        assert done.code == 0, done.messages
        assert elsewhere.poll() is None and peer("pwd; cat theirs") == ["/data/team", "mine"]
        mounted = story.machines["h2"].run("findmnt", "-rn", "-o", "TARGET").stdout
        assert not [point for point in mounted.split() if point.startswith("/gpuaas/")]
    story.applied(HEIR)
    assert story.said(NEXT, "ana", "cat /data/team/run/log") == "one\nmore\n"


def test_nothing_else_changes_by_it(story: Colony) -> None:
    """F-REAL-11: no plan, no proof, and a second time nothing at all."""
    story.rests()
    assert reopened(story).document["result"]["changed"] == 0
    (volume,) = story.world.volumes.values()
    assert "reopening" not in story.machines["h1"].run("ls", f"{SHARED}/{volume.id}").stdout
    story.applied(but=(HEIR,))
    assert story.said(PEER, "cem", "cat /data/team/theirs") == "mine\n"
    assert story.gpuaas("state", "check").code == 0
