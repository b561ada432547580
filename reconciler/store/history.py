"""History, read: events, runs, steps and proofs, for people; planning never looks here."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.model.event import Event, EventType
from reconciler.store.database import Database

_EVENTS = (
    'SELECT sequence, at, type, actor, ref, "commit", before, after, reason, run, digest'
    " FROM event WHERE sequence > :after AND (:ref = '' OR ref = :ref)"
    " ORDER BY sequence"
)
_RUNS = (
    'SELECT id, state, started, ended, actor, "commit", problem FROM run'
    " ORDER BY number DESC LIMIT ?"
)
_STEPS = (
    "SELECT run, verb, node, state, started, finished, changed, problem, message FROM step"
    " WHERE ref = ? ORDER BY run DESC, wave DESC, id LIMIT ?"
)
_PROOFS = (
    "SELECT proof.id, proof.node, proof.slot, proof.at, proof.passed, proof.source, proof.checks"
    " FROM proof WHERE allocation_id IN (SELECT allocation_id FROM claim WHERE ref = ?)"
    " ORDER BY proof.at DESC, proof.id LIMIT ?"
)
LAST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    id: str
    state: str
    started: str
    ended: str
    actor: str
    commit: str
    problem: str


def events(database: Database, ref: str = "", after: int = 0) -> tuple[Event, ...]:
    """Events after the sequence number `after`, oldest first; of one ref, or of all."""
    with database.snapshot() as connection:
        rows = connection.execute(_EVENTS, {"after": after, "ref": ref}).fetchall()
    return tuple(_event(row) for row in rows)


def runs(database: Database, last: int = LAST) -> tuple[Run, ...]:
    """The newest runs first."""
    with database.snapshot() as connection:
        return tuple(
            Run(
                id=id_,
                state=state,
                started=started,
                ended=ended,
                actor=actor,
                commit=commit,
                problem=problem,
            )
            for id_, state, started, ended, actor, commit, problem in connection.execute(
                _RUNS, (last,)
            )
        )


def steps(database: Database, ref: str, last: int = LAST) -> tuple[Mapping[str, Any], ...]:
    """What was asked of hosts for a ref, and what came of it; the newest first."""
    return _mappings(database, _STEPS, (ref, last))


def proofs(database: Database, ref: str, last: int = LAST) -> tuple[Mapping[str, Any], ...]:
    """The proofs over the slots that a ref has held; the newest first."""
    return tuple(
        {**row, "passed": bool(row["passed"]), "checks": json.loads(row["checks"])}
        for row in _mappings(database, _PROOFS, (ref, last))
    )


def plan_used_at(database: Database, fingerprint: str) -> str:
    """When a saved plan was applied; empty if it was not."""
    with database.snapshot() as connection:
        row = connection.execute(
            "SELECT used_at FROM plan WHERE fingerprint = ?", (fingerprint,)
        ).fetchone()
    return str(row[0]) if row else ""


def _mappings(
    database: Database, query: str, arguments: Sequence[Any]
) -> tuple[Mapping[str, Any], ...]:
    with database.snapshot() as connection:
        cursor = connection.cursor()
        cursor.row_factory = sqlite3.Row
        return tuple(dict(row) for row in cursor.execute(query, arguments))


def _event(row: Sequence[Any]) -> Event:
    sequence, at, type_, actor, ref, commit, before, after, reason, run, digest = row
    return Event(
        sequence=sequence,
        at=at,
        type=EventType(type_),
        actor=actor,
        ref=ref,
        commit=commit,
        before=None if before is None else json.loads(before),
        after=None if after is None else json.loads(after),
        reason=reason,
        run=run,
        digest=digest,
    )
