"""Programs that are listened to end with whoever listens, and as soon as it is wished."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

import pytest

from reconciler.hosts.cancel import halting, nobody_wishes
from reconciler.hosts.evidence import run_bounded

FAMILY = "echo $$ > {file}; sleep 300 & echo here; echo $! >> {file}; wait"
"""A program with a child, both of which would stay for a while; the file is whole at the end."""


def family(file: Path) -> tuple[str, ...]:
    return ("sh", "-c", FAMILY.format(file=file))


class Once(Thread):
    """Do something as soon as the families of these files are there, however slow the machine."""

    def __init__(self, deed: Callable[[], None], *files: Path) -> None:
        super().__init__(daemon=True)
        self.deed, self.files, self.at = deed, files, 0.0
        self.start()

    def run(self) -> None:
        end = time.monotonic() + 60
        while not all(file.exists() and file.read_text().count("\n") == 2 for file in self.files):
            if time.monotonic() > end:
                return
            time.sleep(0.01)
        time.sleep(0.2)
        self.at = time.monotonic()
        self.deed()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def assert_gone(file: Path) -> None:
    pids = file.read_text().split()
    assert len(pids) == 2
    end = time.monotonic() + 2
    while [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_wish_ends_the_whole_group(tmp_path: Path) -> None:
    """F-STA-14: at once, and with what it has said until then."""
    wish, file = Event(), tmp_path / "pids"
    wished = Once(wish.set, file)
    ended = run_bounded(family(file), b"", 60, forced=wish.is_set)
    assert time.monotonic() - wished.at < 2
    assert (ended.code, ended.output) == (None, b"here\n")
    assert_gone(file)


def test_an_interrupt_ends_the_whole_group(tmp_path: Path) -> None:
    """F-STA-14: who is interrupted while they listen leaves nobody behind."""
    file = tmp_path / "pids"
    interrupted = Once(interrupt, file)
    with pytest.raises(KeyboardInterrupt):
        run_bounded(family(file), b"", 60)
    assert time.monotonic() - interrupted.at < 2
    assert_gone(file)


def test_an_interrupt_ends_what_threads_listen_to(tmp_path: Path) -> None:
    """F-STA-14: those that have not begun are not begun."""
    files = [tmp_path / str(number) for number in range(4)]
    interrupted = Once(interrupt, *files[:2])
    with (
        pytest.raises(KeyboardInterrupt),
        ThreadPoolExecutor(2) as pool,
        halting(nobody_wishes) as forced,
    ):
        list(pool.map(lambda file: run_bounded(family(file), b"", 60, forced=forced), files))
    assert time.monotonic() - interrupted.at < 3
    for file in files[:2]:
        assert_gone(file)
    assert not files[3].exists()
