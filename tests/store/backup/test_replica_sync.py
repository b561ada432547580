"""How far a copy has come, as Litestream itself says; else nobody knows, which is no number."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.store.backup.replica_sync import last_sync
from reconciler.store.file.database import Database
from tests.harness.replica_process import PATIENCE, of_litestream, until
from tests.store.backup.test_litestream import engine, start
from tests.store.records import START, STATE_ID, State

pytestmark = pytest.mark.walk


@contextmanager
def copying(state: State, copy: Path) -> Iterator[int]:
    one = engine(state, copy)
    process = start(one)
    try:
        until(lambda: of_litestream(one.folder))
        yield of_litestream(one.folder)[0]
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)
        until(lambda: not of_litestream(one.folder))


def moves(state: State) -> bool:
    """Whether it says a later moment than it said."""
    before = last_sync(state.path)
    if before is None:
        return False
    until(lambda: (last_sync(state.path) or before) > before)
    return True


def test_what_follows_says_when(state: State, tmp_path: Path) -> None:
    assert last_sync(state.path) is None, "nobody copies it"
    with copying(state, tmp_path / "copy"):
        until(lambda: last_sync(state.path))
        said = last_sync(state.path)
        assert said is not None
        assert abs((datetime.now(UTC) - said).total_seconds()) < PATIENCE
        assert moves(state), "also with nothing to copy"
    assert last_sync(state.path) is None, "the socket that is left says nothing"


def test_what_cannot_copy_says_no_later_moment(state: State, tmp_path: Path) -> None:
    """A copy that falls behind, and one that never was: neither is told as one of now."""
    copy = tmp_path / "copy"
    with copying(state, copy):
        until(lambda: last_sync(state.path))
        copy.rename(tmp_path / "away")
        copy.touch()
        state.hold("b", slot="s1")
        time.sleep(3)
        behind = last_sync(state.path)
        assert behind is not None
        time.sleep(3)
        assert last_sync(state.path) == behind
        copy.unlink()
        (tmp_path / "away").rename(copy)
        until(lambda: (last_sync(state.path) or behind) != behind)


def test_nothing_copied_yet_is_unknown(state: State, tmp_path: Path) -> None:
    (tmp_path / "copy").touch()
    with copying(state, tmp_path / "copy"):
        time.sleep(3)
        assert last_sync(state.path) is None


def state_of(task: Path) -> str:
    """By proc(5); a thread stops a moment after the signal was sent."""
    return (task / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


def test_one_that_hangs_says_nothing_and_delays_nobody(state: State, tmp_path: Path) -> None:
    with copying(state, tmp_path / "copy") as pid:
        until(lambda: last_sync(state.path))
        os.kill(pid, signal.SIGSTOP)
        until(lambda: all(state_of(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir()))
        began = time.monotonic()
        assert last_sync(state.path) is None
        assert time.monotonic() - began < 3
        os.kill(pid, signal.SIGCONT)
        until(lambda: last_sync(state.path))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.0 200 OK\r\n\r\nno json",
        b'HTTP/1.0 200 OK\r\n\r\n["a list"]',
        b'HTTP/1.0 200 OK\r\n\r\n{"databases": [1, {"path": "another"}]}',
        b'HTTP/1.0 200 OK\r\n\r\n{"databases": [{"path": "PATH", "last_sync_at": "soon"}]}',
    ],
)
def test_what_it_does_not_say_is_unknown(state: State, answer: bytes) -> None:
    folder = state.path.parent / "replica"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "control"))
        listener.listen()
        before = os.fork()
        if not before:
            taken, _ = listener.accept()
            taken.recv(4096)
            taken.sendall(answer.replace(b"PATH", bytes(state.path)))
            os._exit(0)
        assert last_sync(state.path) is None
        os.waitpid(before, 0)


def test_a_fleet_that_lies_deep_says_it_too(tmp_path: Path) -> None:
    """The name of a socket has room for a hundred bytes."""
    deep = tmp_path / ("d" * 120)
    deep.mkdir(mode=0o700)
    path = deep / "gpuaas.db"
    with (
        Database.create(path, state_id=STATE_ID, now=START) as database,
        copying(State(path=path, database=database), tmp_path / "copy"),
    ):
        until(lambda: last_sync(path))
