"""Pruning: what leaves the state, so that its size stays bounded.

Runs go for good, the oldest first; events only move. What somebody has still to decide by stays,
and the guards in SQL say so once more (`migrations/0005_keeping.sql`).
"""

from __future__ import annotations

import sqlite3

from reconciler.model.settings import KeepSettings
from reconciler.store import chain
from reconciler.store.file.database import Database
from reconciler.store.retention import archive
from reconciler.store.serial import serial

RUNS_AT_ONCE = 200
ARCHIVED_SHARE = 5
"""A fifth of the events that may stay moves at a time: few files, and each time little work."""

_OLD_RUNS = """
  SELECT id FROM run WHERE number <= (SELECT max(number) FROM run) - ? AND NOT EXISTS (
    SELECT 1 FROM step s WHERE s.run = run.id
    AND (s.state = 'open' OR s.state = 'unknown' AND NOT EXISTS (
      SELECT 1 FROM observation o
      WHERE o.node = s.node AND o.facts IS NOT NULL AND o.at >= s.finished))
    AND NOT EXISTS (SELECT 1 FROM step n WHERE n.ref = s.ref AND n.id = s.id AND n.run > s.run))
  ORDER BY number LIMIT ?
"""


def tidy(database: Database, keep: KeepSettings) -> None:
    """Within the lock. Each transaction takes a bounded number of rows away."""
    while runs := _old_runs(database.connection, keep.runs):
        with database.transaction("prune") as connection:
            for table, column in (("plan", "run"), ("step", "run"), ("run", "id")):
                connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", runs)
    while last := _last_to_move(database.connection, keep.events):
        file = archive.write(database.connection, database.path, last)
        with database.transaction("archive") as connection:
            _move(connection, last, file)


def _old_runs(connection: sqlite3.Connection, keep: int) -> list[tuple[str]]:
    return connection.execute(_OLD_RUNS, (keep, RUNS_AT_ONCE)).fetchall()


def _last_to_move(connection: sqlite3.Connection, keep: int) -> int:
    """0 as long as there are not too many events."""
    first, _ = chain.anchor(connection)
    (end,) = connection.execute("SELECT coalesce(max(sequence), 0) FROM event").fetchone()
    return first + max(1, keep // ARCHIVED_SHARE) if end - first > keep else 0


def _move(connection: sqlite3.Connection, last: int, file: str) -> None:
    connection.execute(
        "INSERT INTO event_archive (last, digest, serial, file)"
        " SELECT sequence, digest, ?, ? FROM event WHERE sequence = ?",
        (serial(connection, last), file, last),
    )
    connection.execute("DELETE FROM event WHERE sequence <= ?", (last,))
