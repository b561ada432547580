"""Consents, written: who let go what was held, until when, and that it was used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from datetime import timedelta

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.approval import Consent
from reconciler.model.plan.plan import Action, Change, Order, Step
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.state.event import EventType
from reconciler.store.transaction import EventDraft, Record

KEPT = timedelta(days=30)
"""After its end. What it was about stands in the events for good."""

COLUMNS = "id, ref, action, fingerprint, actor, reason, at, expires_at, used_at"


UNUSED = f"SELECT {COLUMNS} FROM consent WHERE used_at = '' ORDER BY at, id"


def read_unused(connection: sqlite3.Connection) -> tuple[Consent, ...]:
    """Those that may still count; some may be over."""
    return tuple(map(_consent, connection.execute(UNUSED)))


def read_all(connection: sqlite3.Connection) -> tuple[Consent, ...]:
    """All that are kept, oldest first."""
    rows = connection.execute(f"SELECT {COLUMNS} FROM consent ORDER BY at, id")
    return tuple(map(_consent, rows))


def give(record: Record, given: Iterable[Consent]) -> None:
    """By whoever acts; each is an event of its own. One that is over for long goes."""
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


def begin(record: Record, steps: Iterable[Step], changes: Mapping[Ref, Change]) -> None:
    """What goes is not asked about again, whatever becomes of it: its consent was good for that."""
    ends = (Action.RELEASE, Action.REPLACE)
    going = {step.ref for step in steps if step.order is Order.RETIRE and step.ref in changes}
    use(record, (ref for ref in going if changes[ref].action in ends), changes)


def use(record: Record, refs: Iterable[Ref], changes: Mapping[Ref, Change]) -> None:
    """What is done was good for this one time."""
    used = {one.consent for ref in refs if (one := changes.get(ref)) and one.consent}
    record.connection.executemany(
        "UPDATE consent SET used_at = ? WHERE fingerprint = ? AND used_at = ''",
        [(record.at, fingerprint) for fingerprint in sorted(used)],
    )


def _consent(row: tuple[str, ...]) -> Consent:
    ref = parse_ref(row[1])
    if ref is None:
        raise sqlite3.DatabaseError(f"{row[1]!r} is no ref")
    return Consent(
        id=row[0],
        ref=ref,
        action=row[2],
        fingerprint=row[3],
        actor=row[4],
        reason=row[5],
        at=row[6],
        expires_at=row[7],
        used_at=row[8],
    )
