"""The lock: held by the kernel, told by name, gone with its holder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import pytest

from reconciler.model.problem import Problem, ProblemError
from reconciler.model.state.lock import NO_PATIENCE, LockPatience
from reconciler.store.file.lock import (
    StateLock,
    give_way,
    holder,
    is_wanted,
    left_behind,
    lives,
)

HOLD = """
import sys, time
from pathlib import Path
from reconciler.store.file.lock import StateLock
with StateLock(Path(sys.argv[1]), actor="olga", command="apply"):
    print("held", flush=True)
    time.sleep(600)
"""


LIVES = {
    "host": os.uname().nodename,
    "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
}


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


def take(path: Path, patience: LockPatience = NO_PATIENCE) -> StateLock:
    return StateLock(path, actor="ana", command="apply", patience=patience)


def refusal(path: Path, patience: LockPatience = NO_PATIENCE) -> Problem:
    with pytest.raises(ProblemError) as caught, take(path, patience):
        raise AssertionError("the lock was given twice")
    (problem,) = caught.value.problems
    return problem


def end(process: subprocess.Popen[str], by: signal.Signals = signal.SIGKILL) -> None:
    process.send_signal(by)
    process.wait(10)


def test_one_holder_at_a_time(path: Path) -> None:
    """F-STA-08: a second holder is refused at once, in the same process too."""
    with take(path):
        assert refusal(path).code == "state_locked"
    with take(path) as lock:
        assert lock.left_behind is None
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_living_holder_is_named(path: Path, other: subprocess.Popen[str]) -> None:
    """F-STA-06: who, what, since when and which process of which boot, in words and in data."""
    began = time.monotonic()
    problem = refusal(path)
    assert time.monotonic() - began < 0.4, "who has said his name is believed at once"
    assert problem.code == "state_locked"
    seen = holder(path)
    assert seen is not None and seen == problem.holder
    assert (seen.pid, lives(seen)) == (other.pid, True)
    assert asdict(seen).items() >= LIVES.items()
    for word in ("olga", "apply", f"pid {other.pid} on {LIVES['host']}", "since 20", seen.id):
        assert word in problem.message
    assert LIVES["boot_id"] in problem.message


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_dead_holder_is_taken_over(
    path: Path, other: subprocess.Popen[str], by: signal.Signals
) -> None:
    """F-STA-06: the lock dies with its holder, and who comes next knows who that was.

    Their name comes back until somebody says that they have written it down.
    """
    end(other, by)
    assert holder(path) is None
    for told in (False, True):
        with take(path) as lock:
            assert lock.left_behind is not None
            assert (lock.left_behind.actor, lock.left_behind.pid) == ("olga", other.pid)
            assert holder(path) not in (None, lock.left_behind)
            if told:
                lock.told()
    with take(path) as lock:
        assert lock.left_behind is None


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
    end(other)
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


def test_a_living_holder_is_never_replaced(path: Path, other: subprocess.Popen[str]) -> None:
    """F-STA-06: not even where the file that names them is gone, false or of somebody dead."""
    said = json.loads(path.read_text())
    for lie in (None, "", json.dumps({**said, "boot_id": "another-boot"})):
        path.unlink() if lie is None else path.write_text(lie)
        problem = refusal(path)
        assert (problem.code, problem.holder) == ("state_locked", None)
        assert "has not said its name" in problem.message
        with pytest.raises(ProblemError) as caught:
            left_behind(path)
        assert caught.value.problems[0].code == "state_locked"
    assert "the last that did is olga" in problem.message


def test_a_stopped_holder_lives(path: Path, other: subprocess.Popen[str]) -> None:
    """F-STA-06: Ctrl-Z is no death."""
    other.send_signal(signal.SIGSTOP)
    problem = refusal(path)
    assert problem.holder is not None and problem.holder.pid == other.pid


class TestPatience:
    def test_waits_and_says_for_whom(self, path: Path, other: subprocess.Popen[str]) -> None:
        """F-STA-08: told once, and the lock is had as soon as it is free."""
        told: list[str] = []
        threading.Timer(0.6, other.kill).start()
        began = time.monotonic()
        with take(path, LockPatience(seconds=30, tell=told.append)) as lock:
            assert time.monotonic() - began < 10
            assert lock.left_behind is not None
        assert len(told) == 1 and f"pid {other.pid}" in told[0]

    def test_says_who_holds_it_when_it_ends(self, path: Path, other: subprocess.Popen[str]) -> None:
        """F-STA-08: a busy write waits, then says who holds it."""
        told: list[str] = []
        problem = refusal(path, LockPatience(seconds=0.3, tell=told.append))
        assert problem.message.startswith("after 0.3 s of waiting held by olga (apply, pid ")
        assert len(told) == 1

    def test_tells_of_each_holder(self, path: Path, other: subprocess.Popen[str]) -> None:
        """F-STA-08: whoever came before is waited for as well."""
        told: list[str] = []
        first = json.loads(path.read_text())

        def pass_on() -> None:
            path.write_text(json.dumps(first | {"id": "second", "actor": "ana"}))

        threading.Timer(0.5, pass_on).start()
        refusal(path, LockPatience(seconds=1.2, tell=told.append))
        assert [words.split()[0] for words in told] == ["olga", "ana"]


class TestLeftBehind:
    def test_tells_the_truth(self, path: Path, other: subprocess.Popen[str]) -> None:
        """F-STA-06: refused while the holder lives, told when it is dead, and then no more."""
        for _ in range(2):
            assert self.refused(path) == "state_locked"
        end(other)
        assert left_behind(path).pid == other.pid
        with take(path) as lock:
            lock.told()
        assert self.refused(path) == "state_not_locked"

    def test_by_a_right_and_a_wrong_id(self, path: Path, other: subprocess.Popen[str]) -> None:
        """F-STA-06: the id of another lock is a mistake, whether this one lives or not."""
        found = refusal(path).holder
        assert found is not None
        assert self.refused(path, "ffffffff") == "lock_other"
        assert self.refused(path, found.id) == "state_locked"
        end(other)
        assert self.refused(path, "ffffffff") == "lock_other"
        assert left_behind(path, found.id) == found

    def test_without_a_lock(self, path: Path) -> None:
        """F-STA-06: asking makes no file."""
        assert self.refused(path) == "state_not_locked"
        assert not path.exists()

    def refused(self, path: Path, id_: str = "") -> str:
        with pytest.raises(ProblemError) as caught:
            left_behind(path, id_)
        return caught.value.problems[0].code


def test_without_a_state(tmp_path: Path) -> None:
    """F-STA-02: no folder, no state, and none is made."""
    path = tmp_path / "state" / "lock"
    assert refusal(path).code == "state_missing"
    assert not path.parent.exists()


def test_is_not_inherited(path: Path) -> None:
    """F-STA-06: a process that outlives its parent does not keep the parent's lock."""
    with take(path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
        forked = get_context("fork").Process(target=time.sleep, args=(60,), daemon=True)
        forked.start()
        assert refusal(path).code == "state_locked", "and its parent keeps it"
    try:
        with take(path):
            assert child.poll() is None and forked.is_alive()
    finally:
        child.kill()
        child.wait(10)
        forked.kill()
        forked.join(10)


def test_who_only_waits_for_hosts_gives_way(tmp_path: Path) -> None:
    """Rule 9: what takes away waits for no build; without patience, and no longer than it takes."""
    path, taken = tmp_path / "lock", threading.Event()

    def suspend() -> None:
        with StateLock(path, actor="olga", command="suspend"):
            taken.set()

    with StateLock(path, actor="ana", command="apply"):
        give_way(path)
        assert not is_wanted(path)
        other = threading.Thread(target=suspend)
        other.start()
        while not is_wanted(path):
            assert other.is_alive()
        who = holder(path)
        assert who is not None and who.command == "apply, which gives way"
        assert not taken.is_set()
    other.join()
    assert taken.is_set()


def test_nobody_gives_way_for_another(tmp_path: Path) -> None:
    """Only who holds the lock says so of themselves."""
    path = tmp_path / "lock"
    give_way(path)
    assert not path.exists() and not is_wanted(path)


def test_a_round_of_a_loop_is_waited_for_by_people_and_not_by_a_suspension(tmp_path: Path) -> None:
    """It comes by itself: nobody is refused for one, and what takes access away waits for none."""
    path, began, over = tmp_path / "lock", threading.Event(), threading.Event()

    def round_() -> None:
        with StateLock(path, actor="gpuaas", command="reconcile"):
            began.set()
            over.wait(10)

    loop = threading.Thread(target=round_)
    loop.start()
    began.wait(10)
    assert refusal(path).code == "state_locked"
    threading.Timer(0.3, over.set).start()
    with take(path, LockPatience(of_a_round=10)):
        pass
    loop.join()
    with take(path):
        assert refusal(path, LockPatience(of_a_round=10)).code == "state_locked"
