"""Reopenings: requests to give one allocation's files to another, and their end."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from reconciler.model.state.event import EventType
from reconciler.model.state.reopening import Former, Reopening
from reconciler.store.transaction import EventDraft, Record

_FORMER = (
    "SELECT a.allocation_id, max(a.ref), max(a.ended), min(a.ended) = '',"
    " EXISTS (SELECT 1 FROM claim c"
    " WHERE c.allocation_id = a.allocation_id AND c.state <> 'freed'),"
    " coalesce((SELECT number FROM posix_id p"
    " WHERE p.kind = 'uid' AND p.owner = a.allocation_id), 0)"
    " FROM attachment a WHERE a.volume = ? GROUP BY a.allocation_id ORDER BY min(a.event)"
)
_PEOPLE = "SELECT person FROM allocation_person WHERE allocation_id = ? ORDER BY person"


def formers(connection: sqlite3.Connection, volume: str) -> tuple[Former, ...]:
    """Every allocation that has or had this volume, oldest first."""
    return tuple(_former(connection, row) for row in connection.execute(_FORMER, (volume,)))


def reopen(record: Record, one: Reopening, reason: str) -> None:
    """By the word of whoever acts, files of one allocation are about to be those of another."""
    (event,) = record.write(
        EventDraft(type=EventType.REOPENING, ref=one.storage, after=_told(one), reason=reason)
    )
    record.connection.execute(
        "INSERT INTO reopening (event, volume, from_id, from_uid, to_id, to_uid, actor, reason, at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            event,
            one.volume,
            one.old.allocation_id,
            one.old.uid or 0,
            one.new.allocation_id,
            one.new.uid or 0,
            record.actor,
            reason,
            record.at,
        ),
    )


def reopened(record: Record, one: Reopening, changed: int, left: str) -> None:
    """A host has looked at all of it."""
    after = {**_told(one), "changed": changed, "left": left}
    record.write(EventDraft(type=EventType.REOPENED, ref=one.storage, after=after))


def _told(one: Reopening) -> Mapping[str, object]:
    return {
        "volume": one.volume,
        "node": one.node,
        "from": one.old.allocation_id,
        "to": one.new.allocation_id,
        "ref": str(one.new.ref),
        "toOthers": one.to_others,
    }


def _former(connection: sqlite3.Connection, row: Any) -> Former:
    id, ref, ended, has_it, is_held, uid = row
    people = tuple(person for (person,) in connection.execute(_PEOPLE, (id,)))
    return Former(
        allocation_id=id,
        ref=ref,
        until=ended,
        lives=bool(has_it or is_held),
        uid=uid or None,
        people=people,
    )
