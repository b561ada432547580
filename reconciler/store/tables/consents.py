"""Consents: who approved what was held, until when, and that it was used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import timedelta

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.approval import Consent
from reconciler.model.plan.plan import Action, Order
from reconciler.model.plan.work import WaveIntent
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_ref
from reconciler.store.transaction import EventDraft, Record

KEPT = timedelta(days=30)
"""After its end. What it was about stands in the events for good."""

COLUMNS = "id, ref, action, fingerprint, actor, reason, at, expires_at, used_at"


UNUSED = f"SELECT {COLUMNS} FROM consent WHERE used_at = '' ORDER BY at, id"


def read_unused(connection: sqlite3.Connection) -> tuple[Consent, ...]:
    """Consents that may still count; some may have expired."""
    return tuple(map(_consent, connection.execute(UNUSED)))


def read_all(connection: sqlite3.Connection) -> tuple[Consent, ...]:
    """All consents that are kept, oldest first."""
    rows = connection.execute(f"SELECT {COLUMNS} FROM consent ORDER BY at, id")
    return tuple(map(_consent, rows))


def give(record: Record, given: Iterable[Consent]) -> None:
    """Give consents in the name of whoever acts; each is an event. Long expired ones are
    removed.
    """
    now = parse_moment(record.at)
    if now is not None:
        old = format_moment(now - KEPT)
        record.connection.execute("DELETE FROM consent WHERE expires_at <= ?", (old,))
    for one in given:
        after = {"action": one.action, "fingerprint": one.fingerprint, "until": one.expires_at}
        entry = EventDraft(type=EventType.APPROVED, ref=one.ref, after=after, reason=one.reason)
        (sequence,) = record.write(entry)
        record.connection.execute(
            f"INSERT INTO consent ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, '')",
            (
                f"{one.id}-{sequence}",
                str(one.ref),
                one.action,
                one.fingerprint,
                record.actor,
                one.reason,
                record.at,
                one.expires_at,
            ),
        )


def begin(record: Record, intent: WaveIntent) -> None:
    """What goes is not asked about again, whatever becomes of it: its consent was good for that."""
    ends = (Action.RELEASE, Action.REPLACE)
    retired = {step.ref for step in intent.steps if step.order is Order.RETIRE}
    going = (change for ref in retired if (change := record.changes.get(ref)))
    use(record, [change.ref for change in going if change.action in ends])


def use(record: Record, refs: Sequence[Ref]) -> None:
    """Use up the consents of what is done: each was good for one time."""
    used = {one.consent for ref in refs if (one := record.changes.get(ref)) and one.consent}
    record.connection.executemany(
        "UPDATE consent SET used_at = ? WHERE fingerprint = ? AND used_at = ''",
        [(record.at, fingerprint) for fingerprint in sorted(used)],
    )


def _consent(row: tuple[str, ...]) -> Consent:
    return Consent(
        id=row[0],
        ref=stored_ref(row[1]),
        action=row[2],
        fingerprint=row[3],
        actor=row[4],
        reason=row[5],
        at=row[6],
        expires_at=row[7],
        used_at=row[8],
    )


TABLE = Table(begin=begin, done=use, read={"consents": read_unused})
