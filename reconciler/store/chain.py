"""The chain of events: each digest covers its row and the digest before it.

Whoever changes a row in the middle must change every row after it; `verify` finds the first that
does not fit.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.model.canonical import canonical
from reconciler.model.event import Event

_COLUMNS = 'sequence, at, type, actor, ref, "commit", before, after, reason, run'
_INSERT = f"INSERT INTO event ({_COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def append(connection: sqlite3.Connection, events: Sequence[Event]) -> range:
    """Write events at the end of the chain, within the caller's transaction; their sequences."""
    first, last = _end(connection)
    rows = []
    for sequence, event in enumerate(events, start=first):
        row = (
            sequence,
            event.at,
            event.type.value,
            event.actor,
            event.ref,
            event.commit,
            _text(event.before),
            _text(event.after),
            event.reason,
            event.run,
        )
        last = _digest(last, row)
        rows.append((*row, last))
    connection.executemany(_INSERT, rows)
    return range(first, first + len(rows))


def verify(connection: sqlite3.Connection, last: int | None = None) -> str:
    """What does not add up, in words; empty if the chain (or its `last` events) is whole."""
    end = connection.execute("SELECT coalesce(max(sequence), 0) FROM event").fetchone()[0]
    start = max(0, end - last) if last is not None else 0
    before = ""
    if start:
        found = connection.execute("SELECT digest FROM event WHERE sequence = ?", (start,))
        before = (found.fetchone() or ("",))[0]
    expected = start
    query = f"SELECT {_COLUMNS}, digest FROM event WHERE sequence > ? ORDER BY sequence"
    for *row, digest in connection.execute(query, (start,)):
        expected += 1
        if row[0] != expected:
            return f"event {expected} is missing"
        before = _digest(before, row)
        if before != digest:
            return f"event {expected} is not what was written then"
    if expected != end:
        return f"event {expected + 1} is missing"
    return "" if expected else "there is not one event"


def _end(connection: sqlite3.Connection) -> tuple[int, str]:
    row = connection.execute(
        "SELECT sequence, digest FROM event ORDER BY sequence DESC LIMIT 1"
    ).fetchone()
    return (row[0] + 1, row[1]) if row else (1, "")


def _digest(previous: str, row: Sequence[Any]) -> str:
    """Over the row as canonical JSON, in the order of `_COLUMNS`, and the digest before it."""
    body = canonical(row)
    return "sha256:" + hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


def _text(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else canonical(value)
