"""Many at one state: readers see one moment and never wait, and whoever is in the way is named."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.store import chain
from reconciler.store.backup import maintenance
from reconciler.store.file import connection
from reconciler.store.file.connection import has_log, log_of
from reconciler.store.file.database import Database
from reconciler.store.file.schema import shipped_schema
from reconciler.store.snapshot import read_world
from reconciler.store.tables import queue
from tests.store.records import START, State, ref


def codes(work: Callable[[], object]) -> list[str]:
    try:
        work()
    except ProblemError as error:
        return [problem.code for problem in error.problems]
    return []


def test_a_log_is_looked_at_in_one_moment(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-STA-08: what is written while the chain is verified is no break in it."""
    looked = []

    def write_meanwhile(reader: sqlite3.Connection) -> tuple[int, str]:
        if not looked:
            looked.append(reader)
            state.journal.enter("wait", queue.join, [ref("vision/late")])
        return anchor(reader)

    state.journal.enter("wait", queue.join, [ref("vision/early")])
    anchor = chain.anchor
    monkeypatch.setattr(chain, "anchor", write_meanwhile)
    with Database.open(state.path, write=False) as database:
        assert len(read_world(database).waiting) == 2
    assert looked, "a log beside the state is looked at"


def test_a_log_that_goes_away_was_none(tmp_path: Path) -> None:
    """F-STA-08: the last one to close the state removes the log while others open it."""
    path, over = tmp_path / "gpuaas.db", threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            log_of(path).write_bytes(b"log")
            log_of(path).unlink()

    coming = threading.Thread(target=come_and_go)
    coming.start()
    try:
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            has_log(path)
    finally:
        over.set()
        coming.join()


def test_a_reader_of_a_schema_that_changes_is_told(state: State) -> None:
    """F-STA-13: an upgrade between two looks is a newer state, and no damage."""
    with Database.open(state.path, write=False) as reader:
        read_world(reader)
        with closing(state.raw()) as raw:
            raw.execute(f"PRAGMA user_version = {shipped_schema().version + 1}")
        assert codes(lambda: read_world(reader)) == ["state_newer"]


@pytest.mark.parametrize("how", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_foreign_writer_keeps_nobody_from_reading(
    state: State, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-STA-08: a shell of sqlite3 in the middle of a change; writing is refused in words."""
    state.database.close()
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.2)
    with closing(state.raw()) as raw:
        raw.execute(how)
        began = time.monotonic()
        with Database.open(state.path, write=False) as reader:
            read_world(reader)
        assert maintenance.check(state.path) == ()
        maintenance.backup(state.path, state.path.with_name("copy.db"))
        assert time.monotonic() - began < 2
        with pytest.raises(ProblemError) as caught:
            Database.open(state.path, write=True)
    (problem,) = caught.value.problems
    assert problem.code == "state_locked"
    assert "database is locked" not in problem.message
    assert "another program" in problem.message


def test_two_that_make_one_state(state_path: Path) -> None:
    """F-STA-08: one makes it, the other finds it made; neither sees half of it."""
    start = threading.Barrier(4)

    def make(number: int) -> list[str]:
        start.wait()
        return codes(
            lambda: Database.create(state_path, state_id=f"state-{number}", now=START).close()
        )

    with ThreadPoolExecutor(4) as pool:
        ends = sorted(pool.map(make, range(4)))
    assert ends == [[], *[["state_exists"]] * 3]
    assert maintenance.check(state_path) == ()
    left = {path.name for path in state_path.parent.iterdir()}
    assert not [name for name in left if "partial" in name]
