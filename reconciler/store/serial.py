"""Serial and stamp of the state: whether anything has changed, without reading it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.model.ref import Ref
from reconciler.model.state.event import SERIAL_TYPES
from reconciler.store.file.database import Database

_LAST_OF_TYPE = "SELECT max(sequence) AS last FROM event WHERE type = ? AND sequence <= ?"
_LAST_ARCHIVED = "SELECT max(serial) FROM event_archive"
NO_END = (1 << 63) - 1


def read_serial(database: Database) -> tuple[str, int]:
    """(state id, serial): as long as they stay, so do recorded, claim and admin state."""
    with database.snapshot() as connection:
        return state_id(connection), serial(connection)


def read_stamp(database: Database) -> str:
    """Text that stays only as long as everything that a plan reads stays."""
    with database.snapshot() as connection:
        parts = connection.execute(
            "SELECT (SELECT state_id FROM state), (SELECT max(sequence) FROM event),"
            " (SELECT count(*) || max(at) || min(at) FROM observation)"
        ).fetchone()
    return "/".join(map(str, parts))


def read_last_run(database: Database) -> str:
    """Text that stays as long as the last run does: how it goes is told by no event."""
    with database.snapshot() as connection:
        row = connection.execute(
            "SELECT id, state, progress, ended, problem FROM run ORDER BY number DESC LIMIT 1"
        ).fetchone()
    return "/".join(row or ())


def read_last_commit(database: Database) -> str:
    """The commit that a run was last made from; empty before the first one."""
    with database.snapshot() as connection:
        row = connection.execute(
            'SELECT "commit" FROM run WHERE "commit" <> \'\' ORDER BY number DESC LIMIT 1'
        ).fetchone()
    return str(row[0]) if row else ""


def read_digests(database: Database, refs: Iterable[str]) -> Mapping[str, str]:
    """What was last recorded of each, as a digest; nothing of what never was."""
    with database.snapshot() as connection:
        rows = connection.execute(
            "SELECT ref, digest FROM resource WHERE ref IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(set(refs))),),
        ).fetchall()
    return {row[0]: row[1] for row in rows}


def read_normal(database: Database, ref: Ref) -> Mapping[str, Any]:
    """What was last recorded of one resource; empty if nothing was."""
    with database.snapshot() as connection:
        row = connection.execute(
            "SELECT normal FROM resource WHERE ref = ?", (str(ref),)
        ).fetchone()
    return json.loads(row[0]) if row else {}


def state_id(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT state_id FROM state").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("it has no state id")
    found: str = row[0]
    return found


def serial(connection: sqlite3.Connection, until: int = NO_END) -> int:
    """The last event up to `until` that changed recorded, claim or admin state."""
    each = [_LAST_OF_TYPE] * len(SERIAL_TYPES)
    query = f"SELECT max(last) FROM ({' UNION ALL '.join((*each, _LAST_ARCHIVED))})"
    values = [value for type_ in sorted(SERIAL_TYPES) for value in (type_, until)]
    found: int = connection.execute(query, values).fetchone()[0] or 0
    return found


def read_looks(database: Database) -> dict[str, tuple[str, str]]:
    """Node → when it was looked at last, and the code of why that told nothing."""
    with database.snapshot() as connection:
        rows = connection.execute("SELECT node, at, problem FROM observation").fetchall()
    return {node: (at, problem or "") for node, at, problem in rows}
