"""A command in a process of its own, followed from stop to stop: a test acts between two of them.

It writes each stop to a pipe, which it cannot open before somebody reads there: there is a pipe a
stop, so it waits at the next one. Whatever it leaves behind becomes a child of this process, and
so is seen.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from reconciler.stops import STOP_LOG, STOPS
from reconciler.store.file.lock import StateLock
from tests.harness.own_process import program
from tests.harness.yard import ROOT, Yard

PR_SET_CHILD_SUBREAPER = 36
SECONDS = 60
MANY = 200


class Followed:
    """`gpuaas WORDS` in the fleet of a yard, at a terminal or with pipes."""

    def __init__(self, yard: Yard, *words: str, terminal: bool = False) -> None:
        self.yard = yard
        self.seen: Counter[str] = Counter()
        self._name = yard.folder / "stops"
        self._laid = 0
        self._closed: list[Path] = []
        self._opened: list[int] = []
        self._lay()
        self.terminal, inner = os.openpty() if terminal else (-1, -1)
        out, err = ((yard.folder / name).open("wb") for name in ("out", "err"))
        streams = (inner, inner, inner) if terminal else (subprocess.DEVNULL, out, err)
        # Closing the terminal is to reach it, as it would reach the command of a shell.
        alone = ("setsid", "--ctty") if terminal else ()
        with out, err:
            self.process = subprocess.Popen(
                [*alone, *program(), "-C", str(yard.folder), *words],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                cwd=ROOT,
                env={
                    **os.environ,
                    STOP_LOG: str(self._name),
                    "TERM": "xterm",
                    "COLUMNS": "100",
                },
            )
        if terminal:
            os.close(inner)

    def until(self, stop: str, number: int = 1) -> None:
        """It has come to `stop` for this time, and goes no further than to the next one."""
        assert stop in STOPS
        end = time.monotonic() + SECONDS
        while True:
            # In this order: whoever stands at a pipe that is opened has written all before it.
            if waits := self._waits:
                self._lay()
            self._listen()
            if self.seen[stop] >= number:
                return
            if waits:
                self._open()
            assert self.process.poll() is None, f"it ended before {stop}: {self.told}"
            assert time.monotonic() < end, f"it never came to {stop}: {dict(self.seen)}"
            time.sleep(0.002)

    def signal(self, *numbers: signal.Signals) -> None:
        """One after the other, as fast as a person would."""
        for place, number in enumerate(numbers):
            time.sleep(0.3 if place else 0.05)
            self.process.send_signal(number)

    def tells(self, text: str) -> None:
        """Wait until this was told; a signal that was sent is noted a moment later."""
        end = time.monotonic() + SECONDS
        while text not in self.told:
            assert time.monotonic() < end and self.process.poll() is None, self.told
            time.sleep(0.01)

    def go_on(self) -> None:
        """No stop holds it up any more."""
        self._open(last=True)

    def end(self, seconds: float = SECONDS) -> int:
        """Its exit code, once it has gone on to its end."""
        self.go_on()
        code = self.process.wait(seconds)
        self._listen()
        self._close()
        return code

    def shown(self, text: str) -> str:
        """All that the terminal has shown, as soon as `text` is in it."""
        found = b""
        while text.encode() not in found:
            found += os.read(self.terminal, 4096)
        return found.decode()

    @property
    def told(self) -> str:
        """Both streams, where there is no terminal."""
        return "".join((self.yard.folder / name).read_text() for name in ("out", "err"))

    def processes(self, word: str) -> list[int]:
        """Its descendants that have this word on their command line."""
        found = []
        for pid in descendants(self.process.pid):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                found += [pid] if word.encode() in words else []
        return found

    def hang(self, word: str) -> int:
        """Stop the first descendant with this word as soon as there is one, for ever."""
        end = time.monotonic() + SECONDS
        while not (found := self.processes(word)):
            assert time.monotonic() < end and self.process.poll() is None, self.told
            time.sleep(0.001)
        os.kill(found[0], signal.SIGSTOP)
        return found[0]

    def _lay(self) -> None:
        """From now on it comes to a new pipe."""
        new = self._name.with_name(f"stop-{self._laid}")
        os.mkfifo(new)
        os.link(new, self._name.with_name("stop"))
        os.replace(self._name.with_name("stop"), self._name)
        self._laid += 1
        self._closed.append(new)

    def _open(self, *, last: bool = False) -> None:
        """Let it pass at every pipe, but not at the one that was laid last, unless that is said."""
        while len(self._closed) > (0 if last else 1):
            pipe = self._closed.pop(0)
            self._opened.append(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
            pipe.unlink()
        self._close(keep=MANY)

    @property
    def _waits(self) -> bool:
        """Whether one of its threads stands before a pipe that nobody reads."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/wchan")
        with suppress(OSError):
            return any("wait_for_partner" in thread.read_text() for thread in threads)
        return False

    def _listen(self) -> None:
        for pipe in self._opened:
            with suppress(BlockingIOError):
                self.seen.update(os.read(pipe, 1 << 16).decode().split())

    def _close(self, keep: int = 0) -> None:
        while len(self._opened) > keep:
            os.close(self._opened.pop(0))


@contextmanager
def adopting() -> Iterator[None]:
    """Fails for every process that is left of those that were started meanwhile."""
    before = set(descendants(os.getpid()))
    _prctl(1)
    try:
        yield
        end = time.monotonic() + 2
        while left := set(descendants(os.getpid())) - before:
            assert time.monotonic() < end, [_words(pid) for pid in left]
            time.sleep(0.02)
    finally:
        for pid in set(descendants(os.getpid())) - before:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _prctl(0)


def _prctl(value: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, value, 0, 0, 0)


def descendants(pid: int) -> Iterator[int]:
    """Living processes below this one; what has ended and is nobody's any more is buried."""
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, thread.read_text().split()):
                state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    yield child
                yield from descendants(child)


def _words(pid: int) -> Sequence[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def assert_free(yard: Yard) -> None:
    """Nobody holds the lock, and nobody has left their name in it."""
    with StateLock(yard.folder / "state/lock", actor="test", command="look") as lock:
        assert lock.left_behind is None
