"""The chain of events: each digest covers its row and the digest before it.

Whoever changes a row in the middle must change every row after it; `verify` finds the first that
does not fit. Where the oldest events have left for an archive, the chain begins at its last digest.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence

from reconciler.model.canonical import canonical
from reconciler.model.state.event import Event

COLUMNS = 'sequence, at, type, actor, ref, "commit", before, after, reason, run'
_INSERT = f"INSERT INTO event ({COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def append(connection: sqlite3.Connection, events: Sequence[Event]) -> range:
    """Write events at the end of the chain, within the caller's transaction; their sequences."""
    first, last = _next(connection)
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
        last = link(last, canonical(row))
        rows.append((*row, last))
    connection.executemany(_INSERT, rows)
    return range(first, first + len(rows))


def verify(connection: sqlite3.Connection, last: int | None = None) -> str:
    """What does not add up, in words; empty if the chain (or its `last` events) is whole."""
    end = connection.execute("SELECT coalesce(max(sequence), 0) FROM event").fetchone()[0]
    start, before = anchor(connection)
    if last is not None and end - last > start:
        start = end - last
        found = connection.execute("SELECT digest FROM event WHERE sequence = ?", (start,))
        before = (found.fetchone() or ("",))[0]
    expected = start
    query = f"SELECT {COLUMNS}, digest FROM event WHERE sequence > ? ORDER BY sequence"
    for *row, digest in connection.execute(query, (start,)):
        expected += 1
        if row[0] != expected:
            return f"event {expected} is missing"
        before = link(before, canonical(row))
        if before != digest:
            return f"event {expected} is not what was written then"
    if expected != end:
        return f"event {expected + 1} is missing"
    return "" if expected else "there is not one event"


def anchor(connection: sqlite3.Connection) -> tuple[int, str]:
    """(sequence, digest) of the last event that is in an archive and not in the state."""
    if not has_archives(connection):
        return 0, ""
    row = connection.execute(
        "SELECT last, digest FROM event_archive ORDER BY last DESC LIMIT 1"
    ).fetchone()
    return row or (0, "")


def has_archives(connection: sqlite3.Connection) -> bool:
    """A state of an earlier version knows of none."""
    query = "SELECT 1 FROM sqlite_master WHERE name = 'event_archive'"
    return connection.execute(query).fetchone() is not None


def link(previous: str, text: str) -> str:
    """The digest of an event: over its row as canonical JSON, and the digest before it."""
    return "sha256:" + hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()


def _next(connection: sqlite3.Connection) -> tuple[int, str]:
    """The sequence of the next event, and the digest that it follows."""
    row = connection.execute(
        "SELECT sequence, digest FROM event ORDER BY sequence DESC LIMIT 1"
    ).fetchone()
    sequence, digest = row or anchor(connection)
    return sequence + 1, digest


def _text(value: Mapping[str, object] | None) -> str | None:
    return None if value is None else canonical(value)
