"""Programs that are listened to end with whoever listens, and as soon as it is wished."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Timer

import pytest

from reconciler.hosts.cancel import halting, nobody_wishes
from reconciler.hosts.evidence import run_bounded

FAMILY = "echo $$ > {file}; sleep 300 & echo $! >> {file}; echo here; wait"
"""A program with a child, both of which would stay for a while."""


def family(file: Path) -> tuple[str, ...]:
    return ("sh", "-c", FAMILY.format(file=file))


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
    Timer(0.3, wish.set).start()
    began = time.monotonic()
    ended = run_bounded(family(file), b"", 60, forced=wish.is_set)
    assert time.monotonic() - began < 2
    assert (ended.code, ended.output) == (None, b"here\n")
    assert_gone(file)


def test_an_interrupt_ends_the_whole_group(tmp_path: Path) -> None:
    """F-STA-14: who is interrupted while they listen leaves nobody behind."""
    file = tmp_path / "pids"
    Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_bounded(family(file), b"", 60)
    assert time.monotonic() - began < 2
    assert_gone(file)


def test_an_interrupt_ends_what_threads_listen_to(tmp_path: Path) -> None:
    """F-STA-14: those that have not begun are not begun."""
    files = [tmp_path / str(number) for number in range(4)]
    Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with (
        pytest.raises(KeyboardInterrupt),
        ThreadPoolExecutor(2) as pool,
        halting(nobody_wishes) as forced,
    ):
        list(pool.map(lambda file: run_bounded(family(file), b"", 60, forced=forced), files))
    assert time.monotonic() - began < 3
    for file in files[:2]:
        assert_gone(file)
    assert not files[3].exists()
