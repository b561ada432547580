"""Removals of the last day, so that many plans together stay within the guard."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import timedelta

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.approval import Removal
from reconciler.model.plan.plan import Action, Change
from reconciler.model.plan.work import WaveIntent
from reconciler.model.ref import Ref
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_ref
from reconciler.store.transaction import Record

DAY = timedelta(days=1)


def read_removals(connection: sqlite3.Connection) -> tuple[Removal, ...]:
    """All that are kept: those of the day before the last of them, and no more."""
    found = connection.execute("SELECT ref, thing, at FROM removal ORDER BY ref, thing")
    return tuple(Removal(ref=stored_ref(ref), thing=thing, at=at) for ref, thing, at in found)


def begin(record: Record, intent: WaveIntent) -> None:
    note(record, [step.ref for step in intent.steps])


def note(record: Record, refs: Sequence[Ref]) -> None:
    """Those of them that are let go of from now on, unless somebody has said so of just that."""
    found = (record.changes[ref] for ref in sorted(set(refs)) if ref in record.changes)
    rows = [(str(one.ref), _thing(record, one), record.at) for one in found if _counts(one)]
    if not rows:
        return
    now = parse_moment(record.at)
    if now is not None:
        old = format_moment(now - DAY)
        record.connection.execute("DELETE FROM removal WHERE at <= ?", (old,))
    record.connection.executemany(
        "INSERT INTO removal (ref, thing, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows
    )


def _thing(record: Record, change: Change) -> str:
    """Its own id: another one may have its name later, and goes as well then."""
    query = "SELECT id FROM volume WHERE storage = ? AND state <> 'gone'"
    row = record.connection.execute(query, (str(change.ref),)).fetchone()
    return change.allocation_id or (str(row[0]) if row else "")


def _counts(change: Change) -> bool:
    """What ends by its time, has begun before, or was approved, is nobody's mistake."""
    said = change.cause is not None or change.consent or change.problem is not None
    return change.action is Action.RELEASE and not said


TABLE = Table(begin=begin, note=note, read={"removals": read_removals})
