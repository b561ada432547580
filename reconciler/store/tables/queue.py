"""The queue of requests without capacity, in the order in which they were first seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_since
from reconciler.store.transaction import EventDraft, Record


def read_waiting(connection: sqlite3.Connection) -> Mapping[Ref, str]:
    """Since when."""
    return stored_since(connection, "SELECT ref, since FROM waiting ORDER BY ref")


def join(record: Record, refs: Sequence[Ref]) -> None:
    """Who waited before keeps their place."""
    waiting = {ref for (ref,) in record.connection.execute("SELECT ref FROM waiting")}
    new = [ref for ref in refs if str(ref) not in waiting]
    record.write(*(EventDraft(type=EventType.WAITING, ref=ref) for ref in new))
    record.connection.executemany(
        "INSERT INTO waiting (ref, since) VALUES (?, ?)", [(str(ref), record.at) for ref in new]
    )


def leave(record: Record, refs: Sequence[Ref]) -> None:
    """They gave up, or nobody wants them any more."""
    for table in ("waiting", "lapsed"):
        record.connection.executemany(
            f"DELETE FROM {table} WHERE ref = ?", [(str(ref),) for ref in refs]
        )


TABLE = Table(read={"waiting": read_waiting})
