"""Bare connections: how the database file is opened, and in which mode."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from reconciler.model.problem import refuse

BUSY_SECONDS = 15.0
CACHE_KIB = 64 * 1024
LOG_LIMIT = 16 << 20
"""Bytes of the log that stay on disk after a write that took more; SQLite reuses them."""

PARTIAL = ".partial"
"""At the end of a name: whatever lies under it was never finished."""


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """A bare connection, in no transaction of its own making; a reader cannot write at all."""
    uri = path.absolute().as_uri() + ("?mode=rw" if write else "?mode=ro")
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    if not write and not has_log(path) and not _answers(connection):
        # A reader of a write-ahead log needs its shared memory; on a read-only disk there is none,
        # and nobody who could change the file either.
        connection.close()
        connection = sqlite3.connect(uri + "&immutable=1", uri=True, isolation_level=None)
    return connection


def set_modes(connection: sqlite3.Connection, path: Path) -> None:
    """Durable commits and readers that never wait; the mode in force is read back."""
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise refuse(
            "state_unsafe_place",
            f"{path}: SQLite cannot keep a write-ahead log here, it uses {mode!r}",
            "move the state to a local disk: `state` in gpuaas.yaml",
        )


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def has_log(path: Path) -> bool:
    """Whoever closes the state as the last one takes the log away, at any moment."""
    try:
        return log_of(path).stat().st_size > 0
    except FileNotFoundError:
        return False


def _answers(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        return not error.sqlite_errorname.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))
    return True


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal", PARTIAL):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
