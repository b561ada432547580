"""Spoilt files: what only root can do to a host's folder, and only a forger to a state."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests import privileges


@contextmanager
def unchangeable(path: Path) -> Iterator[None]:
    """A file, or the names in a folder, that not even root changes for as long as this takes."""
    privileges.have(privileges.immutable)
    subprocess.run(["chattr", "+i", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", path], check=True)


@contextmanager
def unguarded(folder: Path, table: str) -> Iterator[sqlite3.Connection]:
    """The state of the fleet in `folder` without what guards a table there, while this takes."""
    with closing(sqlite3.connect(folder / "state/gpuaas.db")) as state:
        guards = state.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", (table,)
        ).fetchall()
        assert guards
        for name, _ in guards:
            state.execute(f"DROP TRIGGER {name}")
        yield state
        for _, text in guards:
            state.execute(text)
        state.commit()
