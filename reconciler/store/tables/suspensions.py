"""Suspensions: who took something out of use, and who gave it back."""

from __future__ import annotations

import sqlite3

from reconciler.model.problem import refuse
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.state.event import EventType
from reconciler.model.state.world import Suspension
from reconciler.store.registry.contract import Table
from reconciler.store.transaction import EventDraft, Record


def read_suspensions(connection: sqlite3.Connection) -> tuple[Suspension, ...]:
    """All suspensions, expired ones included, by scope."""
    rows = connection.execute(
        "SELECT scope, reason, actor, since, until FROM suspension ORDER BY scope"
    )
    return tuple(
        Suspension(scope=scope, reason=reason, actor=actor, since=since, until=until)
        for scope, reason, actor, since, until in rows
    )


def begin(record: Record, one: Suspension) -> None:
    """Write a suspension; it replaces an earlier one of the same scope, which its event names."""
    after = {"scope": one.scope, "until": one.until}
    record.write(
        EventDraft(type=EventType.SUSPENDED, ref=_ref(one.scope), after=after, reason=one.reason)
    )
    record.connection.execute(
        "INSERT INTO suspension (scope, reason, actor, since, until) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (scope) DO UPDATE SET reason = excluded.reason, actor = excluded.actor,"
        " since = excluded.since, until = excluded.until",
        (one.scope, one.reason, record.actor, record.at, one.until),
    )


def end(record: Record, one: Suspension, why: str) -> None:
    """End a suspension. Raises ProblemError `not_found` if somebody has changed it meanwhile."""
    now = {known.since for known in read_suspensions(record.connection) if known.scope == one.scope}
    if one.since and one.since not in now:
        raise refuse(
            "not_found",
            f"{one.scope} is not suspended any more as it was",
            "somebody has said so anew: see gpuaas status, and agree with him first",
        )
    before = {"scope": one.scope, "reason": one.reason, "until": one.until}
    record.write(EventDraft(type=EventType.RESUMED, ref=_ref(one.scope), before=before, reason=why))
    record.connection.execute("DELETE FROM suspension WHERE scope = ?", (one.scope,))


def _ref(scope: str) -> Ref | None:
    """What it is about: that of the loop for something is about that as well."""
    return parse_ref(scope.removeprefix("loop/"))


TABLE = Table(read={"suspensions": read_suspensions})
