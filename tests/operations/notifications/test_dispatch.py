"""People are told of what a fleet comes to, whoever runs its rounds, and of nothing secret."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import run
from reconciler.operations.notifications.dispatch import read_known
from tests.harness.yard import Yard
from tests.operations.notifications.test_delivery import SECRET, Inbox, inbox
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

ROOM = paper.allocation("room", "slice-2", node="gpu02", expiresAt=paper.LASTING)
SETTINGS = """
operators: [olga]
loop: {intervalSeconds: 5, observeSeconds: 30, metrics: {textfile: gpuaas.prom}}
notifications:
  - name: chat
    webhook: {urlFile: .gpuaas/chat-url, format: json}
"""


def prepare(yard: Yard, box: Inbox) -> None:
    (yard.folder / "gpuaas.yaml").write_text(SETTINGS)
    file = yard.folder / ".gpuaas/chat-url"
    file.write_text(box.url)
    file.chmod(0o600)


def once(yard: Yard) -> str:
    """A round of a process of its own, as a timer starts it: what it printed."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        run(["-C", str(yard.folder), "reconcile", "--once", "-o", "json"])
    return out.getvalue()


def read(box: Inbox) -> list[dict[str, Any]]:
    found = [json.loads(body) for body in box.bodies]
    box.bodies.clear()
    return found


def test_what_is_held_is_told_once_and_told_to_be_over(yard: Yard) -> None:
    """Each round is another process: what was told is known to the next one."""
    with inbox() as box:
        prepare(yard, box)
        once(yard)
        assert read(box) == []
        yard.write(ROOM)
        yard.commit()
        once(yard)
        (told,) = read(box)
        assert (told["event"], told["state"]) == ("held", "new")
        assert told["items"][0]["code"] == "sku_unavailable"
        assert told["items"][0]["about"] == "allocation/vision/room"
        once(yard)
        once(yard)
        assert read(box) == []
        yard.file(ROOM).unlink()
        yard.commit()
        once(yard)
        (told,) = read(box)
        assert (told["event"], told["state"]) == ("held", "over")
        assert not any(read_known(yard.fleet()).values())


def test_whoever_cannot_be_told_is_told_later_and_the_round_goes_on(yard: Yard) -> None:
    with inbox() as box:
        prepare(yard, box)
        once(yard)
        box.status = 500
        yard.write(ROOM, paper.allocation("desk", node="gpu02", expiresAt=paper.LASTING))
        yard.commit()
        once(yard)
        assert yard.recorded("allocation/vision/desk").phase == "active"
        read(box)
        box.status = 200
        once(yard)
        (told,) = read(box)
        assert told["items"][0]["about"] == "allocation/vision/room"


def test_rounds_that_cannot_be_are_told(yard: Yard) -> None:
    with inbox() as box:
        prepare(yard, box)
        away = (yard.folder / ".git").rename(yard.folder / "git-away")
        once(yard)
        once(yard)
        (told,) = read(box)
        assert (told["event"], told["items"][0]["code"]) == ("refused", "no_commit")
        away.rename(yard.folder / ".git")
        once(yard)
        (told,) = read(box)
        assert (told["event"], told["state"]) == ("refused", "over")


def test_the_address_stands_nowhere(yard: Yard) -> None:
    """Not in what is printed, the state, the cache, figures or logs; nor is it in a message."""
    with inbox() as box:
        prepare(yard, box)
        yard.write(ROOM)
        yard.commit()
        said = once(yard)
        box.status = 404
        yard.file(ROOM).unlink()
        yard.commit()
        said += once(yard) + once(yard)
        bodies = b"".join(box.bodies)
    assert SECRET not in said
    assert SECRET.encode() not in bodies
    for path in yard.folder.rglob("*"):
        if path.is_file() and path != yard.folder / ".gpuaas/chat-url":
            assert SECRET.encode() not in path.read_bytes(), path
    assert 'notifications_total{notification="chat",result="failed"}' in figures(yard)


def figures(yard: Yard) -> str:
    return Path(yard.folder / "gpuaas.prom").read_text()
