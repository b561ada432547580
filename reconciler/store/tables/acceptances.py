"""Acceptances: drift that may stay until a time, and forgotten allocations."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from reconciler.model.plan.drift import Acceptance
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.model.state.world import Recorded, RecordedProblem
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_ref
from reconciler.store.tables.usage import end_use
from reconciler.store.transaction import EventDraft, Record

_READ = "SELECT ref, path, fact, actor, reason, since, until FROM accepted_drift ORDER BY ref, path"


def read_acceptances(connection: sqlite3.Connection) -> tuple[Acceptance, ...]:
    return tuple(_acceptances(connection))


def _acceptances(connection: sqlite3.Connection) -> Iterator[Acceptance]:
    for text, key, shown, owner, reason, since, until in connection.execute(_READ):
        yield Acceptance(
            ref=stored_ref(text),
            key=key,
            shown=shown,
            owner=owner,
            reason=reason,
            since=since,
            until=until,
        )


def accept(record: Record, one: Acceptance) -> None:
    """Accept a drift; a newer acceptance of the same thing replaces the older."""
    record.write(
        EventDraft(
            type=EventType.DRIFT_ACCEPTED,
            ref=one.ref,
            after={"key": one.key, "shown": one.shown, "until": one.until},
            reason=one.reason,
        )
    )
    record.connection.execute(
        "INSERT INTO accepted_drift (ref, path, fact, actor, reason, since, until)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (ref, path) DO UPDATE SET"
        " fact = excluded.fact, actor = excluded.actor, reason = excluded.reason,"
        " since = excluded.since, until = excluded.until",
        (str(one.ref), one.key, one.shown, record.actor, one.reason, record.at, one.until),
    )


def retract(record: Record, one: Acceptance, reason: str) -> None:
    """End an acceptance."""
    before = {"key": one.key, "shown": one.shown, "until": one.until}
    record.write(
        EventDraft(type=EventType.DRIFT_RETRACTED, ref=one.ref, before=before, reason=reason)
    )
    record.connection.execute(
        "DELETE FROM accepted_drift WHERE ref = ? AND path = ?", (str(one.ref), one.key)
    )


def let_go(record: Record, one: Recorded, reason: str) -> None:
    """Forget an allocation: it stays on its host, holds its slots, and is neither managed nor
    billed.
    """
    record.write(
        EventDraft(
            type=EventType.FORGOTTEN,
            ref=one.ref,
            before={"id": one.id, "login": one.login, "phase": one.phase},
            after={
                "node": one.node,
                "slots": list(one.slots),
                "problem": RecordedProblem.FORGOTTEN,
            },
            reason=reason,
        )
    )
    record.connection.execute(
        "UPDATE resource SET problem = ?, basis = '' WHERE ref = ?",
        (RecordedProblem.FORGOTTEN, str(one.ref)),
    )
    end_use(record, [one.id])


def rename(record: Record, former: Ref, ref: Ref) -> None:
    record.connection.execute(
        "UPDATE accepted_drift SET ref = ? WHERE ref = ?", (str(ref), str(former))
    )


def forget(record: Record, refs: Sequence[Ref]) -> None:
    """Drop what is known under a name: whoever takes it begins anew."""
    record.connection.executemany(
        "DELETE FROM accepted_drift WHERE ref = ?", [(str(ref),) for ref in refs]
    )


TABLE = Table(forget=forget, rename=rename, read={"accepted_drift": read_acceptances})
