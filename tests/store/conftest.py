from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.store.database import Database
from tests.store.making import START, STATE_ID, State


@pytest.fixture
def state_path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "gpuaas.db"


@pytest.fixture
def state(state_path: Path) -> Iterator[State]:
    with Database.create(state_path, state_id=STATE_ID, now=START) as database:
        yield State(path=state_path, database=database)


@pytest.fixture
def raw(state: State) -> Iterator[sqlite3.Connection]:
    with closing(state.raw()) as connection:
        yield connection
