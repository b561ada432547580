"""Expiry: allocations that are shut off and can come back, and those whose lease is over."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import timedelta

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Cause
from reconciler.model.plan.work import WaveIntent
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_since
from reconciler.store.tables.usage import end_use
from reconciler.store.transaction import EventDraft, Record


def read_lapsed(connection: sqlite3.Connection) -> Mapping[Ref, str]:
    """Since when."""
    return stored_since(connection, "SELECT ref, since FROM lapsed ORDER BY ref")


def begin(record: Record, intent: WaveIntent) -> None:
    """From now on these are not used, so nothing is billed, whatever their hosts do about it.

    Until a host has shown it, nobody knows: it is asked again.
    """
    for ref in sorted({step.ref for step in intent.steps}):
        change = record.changes.get(ref)
        if change is None or not change.undo_minutes:
            continue
        phase, until = record.connection.execute(
            "SELECT phase, undo_until FROM resource WHERE ref = ?", (str(ref),)
        ).fetchone()
        if phase != Phase.QUARANTINED:
            until = _later(record.at, change.undo_minutes)
            record.write(
                EventDraft(
                    type=EventType.RECORDED,
                    ref=ref,
                    before={"phase": phase},
                    after={"phase": Phase.QUARANTINED.value, "undo_until": until},
                )
            )
        record.connection.execute(
            "UPDATE resource SET phase = ?, undo_until = ?, basis = '' WHERE ref = ?",
            (Phase.QUARANTINED.value, until, str(ref)),
        )
        end_use(record, [change.allocation_id])


def _later(at: str, minutes: int) -> str:
    moment = parse_moment(at)
    if moment is None:
        raise ValueError(f"{at!r} is no time")
    return format_moment(moment + timedelta(minutes=minutes))


def end(record: Record, forgotten: Sequence[Ref]) -> None:
    """Those of them that have gone since their time was over: their files make them no more."""
    gone = [
        ref for ref in forgotten if (one := record.changes.get(ref)) and one.cause is Cause.EXPIRED
    ]
    record.connection.executemany(
        "INSERT INTO lapsed (ref, since) SELECT ?1, ?2"
        " WHERE NOT EXISTS (SELECT 1 FROM resource WHERE ref = ?1)"
        " ON CONFLICT (ref) DO UPDATE SET since = excluded.since",
        [(str(ref), record.at) for ref in gone],
    )


TABLE = Table(begin=begin, end=end, read={"lapsed": read_lapsed})
