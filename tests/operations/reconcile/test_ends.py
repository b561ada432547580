"""Whoever ends or wakes a loop, and when: it ends within its step, and another one goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1
from typing import Any

import pytest

from reconciler.cli.views.progress import ENDING, STOPPING
from tests.harness.followed_command import Followed, adopting, assert_free
from tests.harness.yard import Yard, copy_of
from tests.journeys.crash.test_interrupts import LOOKS, image

pytestmark = pytest.mark.walk

LOOP = ("reconcile", "--interval", "300s")
SECONDS = 30


@pytest.fixture
def yard(committed: Yard, tmp_path: Path) -> Yard:
    return copy_of(committed, tmp_path)


def said(yard: Yard) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((yard.folder / "state/loop.json").read_text())
    except (OSError, ValueError):
        return {}
    return found


def until(command: Followed, known: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not known():
        assert time.monotonic() < end and command.process.poll() is None, command.told
        time.sleep(0.02)


def asleep(command: Followed, rounds: int = 1) -> None:
    """After so many rounds."""
    now = command.process.pid
    until(
        command,
        lambda: (
            (one := said(command.yard)).get("pid") == now
            and bool(one["nextAt"])
            and one["rounds"] >= rounds
        ),
    )


def assert_ended(command: Followed, *, refused: bool = False) -> None:
    """On request; `refused` if rounds of it were."""
    yard = command.yard
    assert "Traceback" not in command.told
    assert ("rounds go on" in command.told) is refused
    assert said(yard)["phase"] == "ended"
    assert_free(yard)
    assert yard.gpuaas("state", "check").code == 0


def assert_goes_on(yard: Yard, kept: Yard) -> None:
    """Another loop brings about what an undisturbed one does, and nothing twice."""
    done = yard.gpuaas("reconcile", "--once")
    assert done.code == 0, done.messages
    assert image(yard) == image(kept)
    assert yard.claims == kept.claims
    assert len(yard.rows("SELECT id FROM claim")) == len(kept.rows("SELECT id FROM claim"))


STALLED_GIT = """\
#!/bin/sh
case " $* " in *" {word} "*) kill -STOP $$;; esac
exec {git} "$@"
"""


def stall(word: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """From now on git stops where it is asked for this, however quick it would be."""
    git = shutil.which("git")
    stalled = folder / "bin" / "git"
    stalled.parent.mkdir()
    stalled.write_text(STALLED_GIT.format(word=word, git=git))
    stalled.chmod(0o755)
    patch.setenv("PATH", f"{stalled.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("word", ["fetch", "reset", LOOKS], ids=["fetch", "check-out", "look"])
@pytest.mark.parametrize("number", [SIGTERM, SIGINT], ids=["term", "int"])
def test_what_hangs_and_changes_nothing_holds_up_no_end(
    yard: Yard,
    kept: Yard,
    word: str,
    number: signal.Signals,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A remote, a disk or a host that never answers, while nothing was begun."""
    with adopting(), monkeypatch.context() as patch:
        if word != LOOKS:
            stall(word, tmp_path_factory.mktemp("stalled"), patch)
        command = Followed(yard, *LOOP)
        command.go_on()
        command.hang(word)
        began = time.monotonic()
        command.signal(number)
        assert command.end() == 0, command.told
        assert time.monotonic() - began < 10
    assert_ended(command)
    assert yard.rows("SELECT id FROM run") == []
    assert_goes_on(yard, kept)


def test_a_single_round_says_that_it_was_ended(
    yard: Yard,
    kept: Yard,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with adopting(), monkeypatch.context() as patch:
        stall("fetch", tmp_path_factory.mktemp("stalled"), patch)
        command = Followed(yard, "reconcile", "--once")
        command.go_on()
        command.hang("fetch")
        command.signal(SIGTERM)
        assert command.end() == 130, command.told
    assert "stopped on request [interrupted]" in command.told
    assert "Traceback" not in command.told
    assert_goes_on(yard, kept)


NOTHING, CUT_OFF, DONE, UNKNOWN = "nothing", "cut off", "done", "unknown"
BY_ANSIBLE = (pytest.mark.ansible, pytest.mark.slow)
"""Where the signals find it at work under a loop; under an apply they always do."""


@pytest.mark.parametrize(
    ("stop", "numbers", "came_of_it"),
    [
        ("lock.taken", (SIGTERM,), NOTHING),
        ("look.after", (SIGTERM,), NOTHING),
        # The next stop after it still comes before the plan, however quick that is made.
        ("observe.before", (SIGINT,), NOTHING),
        ("begin_run.before", (SIGTERM,), CUT_OFF),
        ("begin_wave.before", (SIGINT,), CUT_OFF),
        ("begin_wave.after", (SIGTERM,), DONE),
        ("play.during", (SIGTERM,), DONE),
        ("play.during", (SIGTERM, SIGTERM), UNKNOWN),
        pytest.param("play.during", (SIGINT, SIGTERM), UNKNOWN, marks=BY_ANSIBLE),
        ("play.after", (SIGTERM,), DONE),
        ("end_run.before", (SIGTERM,), DONE),
        ("publish.before", (SIGTERM,), DONE),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(n.name for n in value),
)
def test_in_each_phase_of_a_round(
    yard: Yard, kept: Yard, stop: str, numbers: tuple[signal.Signals, ...], came_of_it: str
) -> None:
    """F-STA-14: the play in hand ends and is written down; nothing else is begun."""
    with adopting():
        command = Followed(yard, *LOOP)
        command.until(stop)
        command.signal(*numbers)
        command.tells(ENDING if len(numbers) > 1 else STOPPING)
        assert command.end() == 0, command.told
    assert_ended(command)
    steps = [state for (state,) in yard.rows("SELECT DISTINCT state FROM step")]
    known = {NOTHING: ([],), CUT_OFF: ([], ["failed"]), DONE: (["done"],), UNKNOWN: (["unknown"],)}
    assert steps in known[came_of_it], dict(command.seen)
    assert bool(yard.rows("SELECT id FROM run")) is (came_of_it is not NOTHING)
    assert_goes_on(yard, kept)


def test_asleep_it_ends_at_once(yard: Yard, kept: Yard) -> None:
    with adopting():
        command = Followed(yard, *LOOP)
        command.go_on()
        asleep(command)
        began = time.monotonic()
        command.signal(SIGTERM)
        assert command.end() == 0
        assert time.monotonic() - began < 10
    assert_ended(command)
    assert_goes_on(yard, kept)


@pytest.mark.parametrize("number", [SIGHUP, SIGUSR1], ids=["hup", "usr1"])
@pytest.mark.parametrize("stop", ["lock.taken", "look.during", "play.during", "publish.before", ""])
def test_who_wakes_it_within_a_round_ends_nothing_and_gets_another(
    yard: Yard, kept: Yard, stop: str, number: signal.Signals
) -> None:
    """Whatever it is at, with gpuaas.yaml as it is by then."""
    with adopting():
        command = Followed(yard, *LOOP)
        if stop:
            command.until(stop)
        else:
            command.go_on()
            asleep(command)
        settings = yard.folder / "gpuaas.yaml"
        settings.write_text(settings.read_text() + "loop: {intervalSeconds: 77}\n")
        command.signal(number)
        command.go_on()
        asleep(command, 2)
        command.signal(SIGTERM)
        assert command.end() == 0
    assert_ended(command)
    settings.write_text(settings.read_text().partition("loop:")[0])
    assert_goes_on(yard, kept)
