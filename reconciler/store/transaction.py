"""One transaction of the journal: the open connection, and the events that explain it.

An event is written before the rows it speaks of, since the guards ask for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import field

from reconciler.model.plan.plan import Change
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.event import Event, EventType
from reconciler.store import chain


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDraft:
    """An event before it knows who, when and in which run."""

    type: EventType
    ref: Ref | None = None
    before: Mapping[str, object] | None = None
    after: Mapping[str, object] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What every row of one transaction has in common; `changes` are those of the run's plan."""

    connection: sqlite3.Connection
    actor: str
    at: str
    commit: str = ""
    run: str = ""
    changes: Mapping[Ref, Change] = field(default_factory=dict)

    def write(self, *entries: EventDraft) -> Sequence[int]:
        """Append events; their sequences, in order."""
        events = [
            Event(
                type=entry.type,
                actor=self.actor,
                at=self.at,
                ref=str(entry.ref) if entry.ref else "",
                commit=self.commit,
                before=entry.before,
                after=entry.after,
                reason=entry.reason,
                run=self.run,
            )
            for entry in entries
        ]
        return chain.append(self.connection, events)
