"""Integrity: whether the database file and its log can be trusted.

The log of a crash is part of the state; the log of another database destroys it, and may do so in
an index alone, which the quick check does not look at.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from reconciler.store import chain
from reconciler.store.cache import SqliteCache
from reconciler.store.file.connection import log_of
from reconciler.store.file.errors import damaged

CHAIN_TAIL = 2000
SPACE, KEY = "sound", "log"
"""Where the cache keeps which log was looked at."""

_LOG_HEADER = 32


def insist(connection: sqlite3.Connection, path: Path) -> None:
    """Check the database at one moment, whatever is written meanwhile.

    Raises ProblemError `state_damaged`.
    """
    connection.execute("BEGIN")
    try:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        broken = found if found != "ok" else chain.verify(connection, last=CHAIN_TAIL)
    finally:
        connection.execute("ROLLBACK")
    if broken:
        raise damaged(path, broken)


def insist_on_log(connection: sqlite3.Connection, path: Path) -> None:
    """Like `insist`, once for each file with its log: while others write, a log is always there.

    What is added to a log later is bound to its beginning by SQLite's own checksums.
    """
    pair = _pair(path)
    with closing(SqliteCache(path.with_name("cache.db"))) as cache:
        if cache.get_many(SPACE, [KEY]).get(KEY) == pair:
            return
        insist(connection, path)
        if _pair(path) == pair:
            cache.put_many(SPACE, {KEY: pair})


def _pair(path: Path) -> str:
    """Which file and which log these are: whoever changes the one or begins the other changes it.

    The log's header holds random numbers, drawn anew whenever it begins from its start again.
    """
    log = log_of(path)
    with log.open("rb") as file:
        header = file.read(_LOG_HEADER)
    parts = [header.hex(), log.stat().st_ino]
    status = path.stat()
    parts += [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    return " ".join(map(str, parts))
