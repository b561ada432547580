"""Soundness: a log that others keep is looked at once, and one that was exchanged always anew."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.store.backup.maintenance import check
from reconciler.store.cache import SqliteCache
from reconciler.store.file import integrity
from reconciler.store.file.connection import log_of
from reconciler.store.file.database import Database
from tests.store.records import State

ROOT = Path(__file__).parents[3]


@pytest.fixture
def logged(state: State) -> Iterator[State]:
    """A state whose log somebody keeps: here its own writer, elsewhere what copies it."""
    state.hold_many([f"a{number}" for number in range(60)])
    assert log_of(state.path).stat().st_size > 0
    yield state


def remembered(path: Path) -> str:
    with closing(SqliteCache(path.with_name("cache.db"))) as cache:
        return cache.get_many(integrity.SPACE, [integrity.KEY]).get(integrity.KEY, "")


def opens(path: Path) -> bool:
    try:
        Database.open(path, write=False).close()
    except ProblemError as error:
        assert error.problems[0].code == "state_damaged"
        return False
    return True


def break_a_page(path: Path) -> None:
    """In an index, where nobody looks who reads rows."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'claim_by_allocation'"
        (page,) = connection.execute(query).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek(page * size - 512)
        file.write(b"\xa5" * 512)


def test_is_looked_at_once(logged: State) -> None:
    """F-STA-08: while somebody keeps a log, no reader pays for it a second time."""
    assert remembered(logged.path) == ""
    assert opens(logged.path)
    first = remembered(logged.path)
    assert first
    logged.hold("b", node="gpu-b")
    assert opens(logged.path)
    assert remembered(logged.path) == first


def test_what_is_remembered_is_not_looked_at_again(logged: State, tmp_path: Path) -> None:
    """F-STA-08: that is the point of it; this also shows that the tests below test something."""
    path = left_behind(logged, tmp_path / "crashed")
    break_a_page(path)
    with closing(SqliteCache(path.with_name("cache.db"))) as cache:
        cache.put_many(integrity.SPACE, {integrity.KEY: integrity._pair(path)})
    assert opens(path)


@pytest.mark.parametrize("how", ["nothing", "a page", "another file", "the log", "an older file"])
def test_what_was_exchanged_is_looked_at(logged: State, tmp_path: Path, how: str) -> None:
    """F-STA-03: neither the file nor its log can be another one without being looked at."""
    logged.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    logged.release("a0", "gpu000")
    older = left_behind(logged, tmp_path / "older")
    logged.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(300):
        logged.journal.take_over_lock(f"filler {number}")
    logged.release("a1", "gpu001")
    logged.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    logged.release("a2", "gpu002")
    path = left_behind(logged, tmp_path / "crashed")
    assert opens(path)
    before = remembered(path)
    if how == "a page":
        break_a_page(path)
    elif how == "another file":
        copied = tmp_path / "copied.db"
        shutil.copy2(path, copied)
        break_a_page(copied)
        os.replace(copied, path)
    elif how == "the log":
        log_of(path).write_bytes(log_of(older).read_bytes())
    elif how == "an older file":
        shutil.copy2(older, path)
    assert opens(path) == (how == "nothing")
    assert remembered(path) == before


def left_behind(state: State, folder: Path) -> Path:
    """The state with its log, as a crash would leave it."""
    folder.mkdir(mode=0o700)
    for source in (state.path, log_of(state.path)):
        shutil.copy2(source, folder / source.name)
    return folder / state.path.name


def test_a_log_that_begins_anew_is_looked_at(logged: State) -> None:
    """F-STA-03: its random numbers are others then."""
    assert opens(logged.path)
    first = remembered(logged.path)
    logged.database.connection.execute("PRAGMA wal_checkpoint(RESTART)")
    logged.hold("b", node="gpu-b")
    assert opens(logged.path)
    assert remembered(logged.path) not in ("", first)


def test_looking_at_a_file_takes_no_lock_away(logged: State) -> None:
    """F-STA-08: whoever closes a file loses all locks on it, those of SQLite's as well.

    Without them another process that ends as the last one would take the log away under us.
    """
    for write in (False, True):
        Database.open(logged.path, write=write).close()
    assert check(logged.path) == ()
    subprocess.run([sys.executable, "-c", LAST_ONE, str(logged.path)], check=True)
    assert log_of(logged.path).exists()
    logged.hold("b", node="gpu-b")
    with closing(logged.raw()) as other:
        assert other.execute("SELECT count(*) FROM claim").fetchone() == (61,)


LAST_ONE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM claim").fetchone()
connection.close()
"""
