"""Whoever ends a command, and when: what was done is written down, nothing is left, all goes on."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGQUIT, SIGTERM

import pytest

from reconciler.cli.views.progress import ENDING, STOPPING
from reconciler.store.file.lock import StateLock
from tests.harness.followed_command import Followed, adopting, assert_free
from tests.harness.own_process import program
from tests.harness.yard import ROOT, Yard, copy_of, two_hosts

pytestmark = pytest.mark.walk

APPLY = ("apply", "--auto-approve=destroys")
LOOKS = "-IS"
"""On the command line of the observe code."""


@pytest.fixture(scope="session")
def new(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Two hosts that nobody has looked at yet, and what is wanted of them."""
    return two_hosts(tmp_path_factory.mktemp("new"))


@pytest.fixture(scope="session")
def whole(new: Yard, tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """The same fleet, applied without anybody in the way; not to be changed."""
    yard = copy_of(new, tmp_path_factory.mktemp("whole"))
    done = yard.apply()
    assert done.code == 0, done.messages
    return yard


@pytest.fixture
def yard(new: Yard, tmp_path: Path) -> Yard:
    return copy_of(new, tmp_path)


def image(yard: Yard) -> Mapping[str, object]:
    """All that lies on hosts and is published, with modes and content."""
    found: dict[str, object] = {}
    for top in ("nodes", "published"):
        for path in (yard.folder / top).rglob("*"):
            mode = path.lstat().st_mode
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            if path.name not in ("status.md", "status.json"):
                content = content.replace(str(yard.folder).encode(), b"<fleet>")
                found[str(path.relative_to(yard.folder))] = (mode, content)
    return found


def assert_untouched(yard: Yard, new: Yard) -> None:
    """No run was begun, no host asked to do anything."""
    assert yard.rows("SELECT id FROM run") == []
    assert yard.claims == {}
    assert image(yard) == image(new)


def assert_goes_on(yard: Yard, whole: Yard) -> None:
    """A plain apply brings about what one without an interrupt does, and nothing twice."""
    assert_free(yard)
    done = yard.apply()
    assert done.code == 0, done.messages
    assert image(yard) == image(whole)
    assert yard.claims == whole.claims
    assert len(yard.rows("SELECT id FROM claim")) == len(whole.rows("SELECT id FROM claim"))
    assert yard.gpuaas("state", "check").code == 0
    assert yard.plan("--detailed-exitcode").code == 0


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (APPLY, (SIGINT,)),
        (APPLY, (SIGTERM, SIGINT)),
        (APPLY, (SIGHUP,)),
        (("plan", "--refresh"), (SIGINT, SIGINT)),
        (("plan", "--refresh"), (SIGQUIT,)),
    ],
    ids=lambda words: "+".join(map(str, words)),
)
def test_while_a_host_is_looked_at(
    yard: Yard, new: Yard, words: tuple[str, ...], numbers: tuple[signal.Signals, ...]
) -> None:
    """F-STA-14: a host that never answers holds up nobody who wants to leave."""
    with adopting():
        command = Followed(yard, *words)
        command.go_on()
        command.hang(LOOKS)
        began = time.monotonic()
        command.signal(*numbers)
        assert command.end() == 130
        assert time.monotonic() - began < 10
    assert "Traceback" not in command.told
    assert "stopped on request [interrupted]" in command.told
    assert_free(yard)
    assert_untouched(yard, new)


@pytest.mark.parametrize("end", ["typed", "closed", SIGTERM], ids=str)
def test_while_a_person_is_asked(yard: Yard, new: Yard, end: str | signal.Signals) -> None:
    """F-STA-14, F-STA-06: no answer is no yes, whether by Ctrl-C or by a terminal that is gone."""
    with adopting():
        command = Followed(yard, "apply", terminal=True)
        command.go_on()
        shown = command.shown("[yes/no]")
        if end == "typed":
            os.write(command.terminal, b"\x03")
        elif end == "closed":
            os.close(command.terminal)
        else:
            command.signal(SIGTERM)
        assert command.process.wait(10) == 130
    assert "Traceback" not in shown
    assert_free(yard)
    assert_untouched(yard, new)


def test_before_the_run_has_begun(yard: Yard, new: Yard) -> None:
    """F-STA-14: between a consent and the first record nothing is begun any more."""
    with adopting():
        command = Followed(yard, *APPLY)
        command.until("lock.taken", 2)
        command.signal(SIGINT, SIGINT)
        assert command.end() == 130
    assert "Traceback" not in command.told
    assert_free(yard)
    assert_untouched(yard, new)


def test_while_waiting_for_somebody_else(yard: Yard, new: Yard) -> None:
    """F-STA-08: Ctrl-C ends the wait, and nothing was done."""
    with StateLock(yard.folder / "state/lock", actor="olga", command="apply"), adopting():
        command = Followed(yard, *APPLY, "--lock-timeout=10m")
        until = time.monotonic() + 30
        while f"waiting for olga (apply, pid {os.getpid()}" not in command.told:
            assert time.monotonic() < until
            time.sleep(0.05)
        command.signal(SIGINT)
        assert command.end() == 130
    assert "Traceback" not in command.told
    assert_free(yard)
    assert_untouched(yard, new)


HOSTS = 2
BY_ANSIBLE = pytest.mark.ansible
"""Where the signals find it at work."""

DONE, CUT_OFF, UNKNOWN = "all was done", "nothing was begun", "nobody knows what was done"


@pytest.mark.parametrize(
    ("stop", "numbers", "came_of_it"),
    [
        ("begin_run.before", (SIGINT,), CUT_OFF),
        ("begin_wave.before", (SIGTERM,), CUT_OFF),
        ("begin_wave.before", (SIGINT, SIGINT), CUT_OFF),
        ("begin_wave.after", (SIGHUP,), DONE),
        pytest.param("play.during", (SIGTERM, SIGHUP, SIGHUP), DONE, marks=BY_ANSIBLE),
        pytest.param("play.during", (SIGINT, SIGINT), UNKNOWN, marks=BY_ANSIBLE),
        pytest.param("play.during", (SIGQUIT,), UNKNOWN, marks=BY_ANSIBLE),
        ("play.after", (SIGINT,), DONE),
        ("finish_wave.before", (SIGINT, SIGINT, SIGINT), DONE),
        ("end_run.before", (SIGTERM,), DONE),
        ("publish.before", (SIGINT, SIGINT), DONE),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(n.name for n in value),
)
def test_in_each_phase_of_a_run(
    yard: Yard, whole: Yard, stop: str, numbers: tuple[signal.Signals, ...], came_of_it: str
) -> None:
    """F-STA-14: the first wish lets hosts finish and is recorded; after the second what they did is
    unknown until the next apply has looked. Either way it ends with 130 and leaves nothing.
    """
    with adopting():
        command = Followed(yard, *APPLY)
        if stop == "finish_wave.before":
            # The first host may be recorded while another is at work still, which may be ended.
            command.until("play.after")
        command.until(stop, HOSTS if stop == "finish_wave.before" else 1)
        command.signal(*numbers)
        forced = SIGQUIT in numbers or len([n for n in numbers if n != SIGHUP]) > 1
        command.tells(ENDING if forced else STOPPING)
        assert command.end() == (0 if came_of_it is DONE else 130)
    assert "Traceback" not in command.told
    assert ("interrupted: " in command.told) == (came_of_it is not DONE), "what was left is told"
    steps = [state for (state,) in yard.rows("SELECT DISTINCT state FROM step")]
    known = {DONE: (["done"],), CUT_OFF: ([], ["failed"]), UNKNOWN: (["unknown"],)}
    assert steps in known[came_of_it], dict(command.seen)
    (run,) = yard.rows("SELECT state FROM run")
    assert run == ("done" if came_of_it is DONE else "interrupted",)
    assert_goes_on(yard, whole)


@pytest.mark.ansible
def test_a_terminal_that_is_closed_takes_no_record(yard: Yard, whole: Yard) -> None:
    """F-STA-06, F-STA-14: nobody sees the end of the play, and all of it is written down."""
    with adopting():
        command = Followed(yard, *APPLY, terminal=True)
        command.until("play.before")
        command.shown("connect")
        os.close(command.terminal)
        assert command.end() == 0
    assert yard.rows("SELECT DISTINCT state FROM step") == [("done",)]
    assert yard.rows("SELECT state FROM run") == [("done",)]
    assert_goes_on(yard, whole)


def test_a_look_that_hangs_is_ended_by_the_second(yard: Yard, whole: Yard) -> None:
    """F-STA-14: the first waits for the host that has done its work, the second for nobody."""
    with adopting():
        command = Followed(yard, *APPLY)
        # Two were looked at before the plan; by the fourth look nothing else is under way.
        command.until("look.during", 4)
        command.go_on()
        command.hang(LOOKS)
        command.signal(SIGINT)
        time.sleep(0.7)
        assert command.process.poll() is None
        assert "once more ends it at once" in command.told
        while ("done",) not in yard.rows("SELECT state FROM step"):
            assert command.process.poll() is None
            time.sleep(0.05)
        began = time.monotonic()
        command.signal(SIGINT)
        assert command.end() == 130, command.told
        assert time.monotonic() - began < 10
    states = {state for (state,) in yard.rows("SELECT state FROM step")}
    assert states == {"done", "unknown"}, "the other host has shown what it did"
    assert_goes_on(yard, whole)


def test_a_reader_that_leaves_is_no_error(whole: Yard) -> None:
    """F-CLI-03: `gpuaas … | head -1` says nothing and ends in order."""
    for words in (("status",), ("events", "-o", "jsonl"), ("plan", "--help")):
        line = shlex.join([*program(), "-C", str(whole.folder), *words])
        piped = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line} | head -1"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (piped.returncode, piped.stderr) == (0, ""), words
        assert len(piped.stdout.splitlines()) == 1


def test_a_signal_ends_the_tests_though_a_command_of_theirs_takes_it(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ends the run, as `timeout` does, is not told of a test that fails with 130."""
    interrupt = partial(os.kill, os.getpid(), SIGINT)
    monkeypatch.setattr("reconciler.operations.observe.ask", lambda *_, **more: interrupt())
    with pytest.raises(KeyboardInterrupt):
        yard.plan("--refresh")
