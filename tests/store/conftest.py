from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.store.file.database import Database
from tests.store.records import START, STATE_ID, State


@pytest.fixture
def state_path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "gpuaas.db"


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new state, made once and copied for every test."""
    path = tmp_path_factory.mktemp("fresh") / "gpuaas.db"
    Database.create(path, state_id=STATE_ID, now=START).close()
    return path


@pytest.fixture
def state(state_path: Path, fresh: Path) -> Iterator[State]:
    state_path.parent.mkdir(mode=0o700)
    shutil.copy(fresh, state_path)
    with Database.open(state_path, write=True) as database:
        # No test pulls the plug, and every commit would wait for the disk.
        database.connection.execute("PRAGMA synchronous = OFF")
        yield State(path=state_path, database=database)


@pytest.fixture
def raw(state: State) -> Iterator[sqlite3.Connection]:
    with closing(state.raw()) as connection:
        yield connection
