"""The lock: held by the kernel, told by name, gone with its holder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.store.lock import StateLock, holder, unlock

HOLD = """
import sys, time
from pathlib import Path
from reconciler.store.lock import StateLock
with StateLock(Path(sys.argv[1]), actor="olga", command="apply"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def other(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def take(path: Path) -> StateLock:
    return StateLock(path, actor="ana", command="apply")


def refusal(path: Path) -> ProblemError:
    with pytest.raises(ProblemError) as caught, take(path):
        raise AssertionError("the lock was given twice")
    return caught.value


def test_one_holder_at_a_time(path: Path) -> None:
    """F-STA-08: a second holder is refused at once, in the same process too."""
    with take(path):
        assert refusal(path).problems[0].code == "state_locked"
    with take(path) as lock:
        assert lock.left_behind is None
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_living_holder_is_named(path: Path, other: subprocess.Popen[str]) -> None:
    """F-STA-06: who, what, since when and which process."""
    (problem,) = refusal(path).problems
    assert problem.code == "state_locked"
    for word in ("olga", "apply", f"pid {other.pid}", "since 20"):
        assert word in problem.message
    seen = holder(path)
    assert seen is not None
    assert (seen.pid, seen.lives) == (other.pid, True)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_dead_holder_is_taken_over(
    path: Path, other: subprocess.Popen[str], end: signal.Signals
) -> None:
    """F-STA-06: the lock dies with its holder, and the next one knows who that was."""
    other.send_signal(end)
    other.wait(10)
    assert holder(path) is None
    with take(path) as lock:
        assert lock.left_behind is not None
        assert (lock.left_behind.actor, lock.left_behind.pid) == ("olga", other.pid)
    with take(path) as lock:
        assert lock.left_behind is None, "told once"


@pytest.mark.parametrize(
    "lie",
    [
        {"pid": os.getpid()},
        {"pid": os.getpid(), "start": 1},
        {"pid": 1, "boot_id": "another-boot"},
        {"host": "another-host"},
    ],
)
def test_not_judged_by_a_number(
    path: Path, other: subprocess.Popen[str], lie: dict[str, object]
) -> None:
    """F-STA-12: a pid that lives, but is another process, another boot or host, holds nothing."""
    other.kill()
    other.wait(10)
    path.write_text(json.dumps(json.loads(path.read_text()) | lie))
    assert holder(path) is None
    with take(path) as lock:
        assert lock.left_behind is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "\0\0\0"])
def test_half_a_name_is_no_holder(path: Path, text: str) -> None:
    """F-STA-06: what a crash left half written neither holds nor stops anybody."""
    path.write_text(text)
    assert holder(path) is None
    with take(path) as lock:
        assert lock.left_behind is None


class TestUnlock:
    def test_tells_the_truth(self, path: Path, other: subprocess.Popen[str]) -> None:
        """F-STA-06: refused while the holder lives, done when it is dead, and then no more."""
        for _ in range(2):
            with pytest.raises(ProblemError) as caught:
                unlock(path)
            assert caught.value.problems[0].code == "state_locked"
        other.kill()
        other.wait(10)
        assert unlock(path).pid == other.pid
        with pytest.raises(ProblemError) as caught:
            unlock(path)
        assert caught.value.problems[0].code == "state_not_locked"

    def test_without_a_lock(self, path: Path) -> None:
        """F-STA-06: asking makes no file."""
        with pytest.raises(ProblemError) as caught:
            unlock(path)
        assert caught.value.problems[0].code == "state_not_locked"
        assert not path.exists()


def test_without_a_state(tmp_path: Path) -> None:
    """F-STA-02: no folder, no state, and none is made."""
    path = tmp_path / "state" / "lock"
    assert refusal(path).problems[0].code == "state_missing"
    assert not path.parent.exists()


def test_is_not_inherited(path: Path) -> None:
    """F-STA-06: a process that outlives its parent does not keep the parent's lock."""
    with take(path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with take(path):
            assert child.poll() is None
    finally:
        child.kill()
        child.wait(10)
