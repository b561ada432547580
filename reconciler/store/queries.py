"""Queries of history, for people. Planning never reads any of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.model.plan.lifecycle import RunState
from reconciler.model.records import dataclass
from reconciler.model.state.event import Event, EventType
from reconciler.model.timeline import Steps, StepTold
from reconciler.store import chain
from reconciler.store.file.database import Database
from reconciler.store.retention import archive

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one plan, as far as it came; `ended` is empty while it runs."""

    id: str
    actor: str
    commit: str
    fingerprint: str
    state: RunState
    started: str
    progress: str
    ended: str
    problem: str


_EVENTS = (
    f"SELECT {chain.COLUMNS}, digest FROM event"
    " WHERE sequence > ? AND (? = '' OR ref = ?) ORDER BY sequence"
)
PAGE = 1000
REF = archive.NAMES.index("ref")


def events(database: Database, ref: str = "", after: int = 0) -> Iterator[Event]:
    """Events after a sequence number, oldest first, of one ref or all: archived ones as well.

    Few of them are held at a time, and nothing is kept from moving meanwhile. Raises ProblemError
    `archive_missing` or `archive_broken`.
    """
    while True:
        with database.snapshot() as connection:
            archived = (a for a in archive.archives(connection, database.path) if a.last > after)
            oldest = next(archived, None)
            rows = connection.execute(f"{_EVENTS} LIMIT {PAGE}", (after, ref, ref)).fetchall()
        if oldest is not None:
            yield from (event for event in _archived(oldest, ref) if event.sequence > after)
            after = oldest.last
        elif rows:
            yield from map(_event, rows)
            after = rows[-1][0]
        else:
            return


def last_events(database: Database, ref: str, limit: int) -> tuple[Event, ...]:
    """The last ones of a ref that the state holds, oldest first; else of the newest archive."""
    with database.snapshot() as connection:
        rows = connection.execute(f"{_EVENTS} DESC LIMIT ?", (0, ref, ref, limit)).fetchall()
        archived = [] if rows else list(archive.archives(connection, database.path))
    found = [_event(row) for row in reversed(rows)]
    while archived and not found:
        found = list(_archived(archived.pop(), ref))[-limit:]
    return tuple(found)


def was(database: Database, ref: str) -> bool:
    """Whether there is any event of a ref."""
    return bool(last_events(database, ref, 1))


def was_in(database: Database, project: str) -> bool:
    """Whether there is any event of something in a project."""
    with database.snapshot() as connection:
        query = "SELECT 1 FROM event WHERE ref GLOB ? LIMIT 1"
        if connection.execute(query, (f"*/{project}/*",)).fetchone():
            return True
        archived = tuple(archive.archives(connection, database.path))
    rows = (row for one in archived for row, _ in archive.read(one))
    return any(f"/{project}/" in (row[REF] or "") for row in rows)


def _archived(one: archive.Archive, ref: str) -> Iterator[Event]:
    for row, digest in archive.read(one):
        if not ref or row[REF] == ref:
            yield _event((*row, digest))


def runs(database: Database, limit: int = -1) -> tuple[Run, ...]:
    """The last runs, newest first."""
    query = (
        'SELECT id, actor, "commit", fingerprint, state, started, progress, ended, problem'
        " FROM run ORDER BY number DESC LIMIT ?"
    )
    with database.snapshot() as connection:
        return tuple(
            Run(
                id=row[0],
                actor=row[1],
                commit=row[2],
                fingerprint=row[3],
                state=RunState(row[4]),
                started=row[5],
                progress=row[6],
                ended=row[7],
                problem=row[8],
            )
            for row in connection.execute(query, (limit,))
        )


def steps(database: Database, ref: str) -> tuple[Row, ...]:
    """What hosts were asked for this ref, oldest first."""
    return _rows(
        database,
        "SELECT run, wave, verb, node, state, started, finished, changed, problem, message, log"
        " FROM step WHERE ref = ? ORDER BY run, wave, id",
        ref,
    )


def step_words(database: Database, ref: str = "") -> Steps:
    """What was said about each step of a ref, or of all, beside its events."""
    query = "SELECT run, id, message, log FROM step WHERE (? = '' OR ref = ?)"
    with database.snapshot() as connection:
        return {
            (run, id_): StepTold(message=message, log=log)
            for run, id_, message, log in connection.execute(query, (ref, ref))
            if message or log
        }


def newest_events(database: Database, limit: int) -> tuple[Event, ...]:
    """The last ones that the state itself holds, of all refs, oldest first."""
    with database.snapshot() as connection:
        rows = connection.execute(f"{_EVENTS} DESC LIMIT ?", (0, "", "", limit)).fetchall()
    return tuple(map(_event, reversed(rows)))


def proofs(database: Database, ref: str) -> tuple[Row, ...]:
    """Every proof over a claim of this ref, oldest first, with the claim it freed, if any."""
    rows = _rows(
        database,
        "SELECT proof.id, allocation_id AS allocationId, node, slot, at, source, passed, checks,"
        " coalesce((SELECT claim.id FROM claim WHERE claim.proof = proof.id), '') AS freed"
        " FROM proof WHERE allocation_id IN (SELECT allocation_id FROM claim WHERE ref = ?)"
        " ORDER BY event",
        ref,
    )
    return tuple(
        {**row, "passed": bool(row["passed"]), "checks": json.loads(row["checks"])} for row in rows
    )


def usage(database: Database, ref: str) -> tuple[Row, ...]:
    """The billing records of this ref, oldest first."""
    return _rows(
        database,
        "SELECT allocation_id, started, ended, tenant, project, node, shape, gpus,"
        " price_per_gpu_hour, currency FROM usage_record WHERE ref = ? ORDER BY started",
        ref,
    )


def attachments(database: Database, storage: str) -> tuple[Row, ...]:
    """Who has had a storage, oldest first, and by what each of them came to an end."""
    query = "SELECT * FROM projected_attachment WHERE storage = ? ORDER BY since, allocation_id"
    return _rows(database, query, storage)


def storage_usage(database: Database, storage: str) -> tuple[Row, ...]:
    """The billing records of this storage, oldest first."""
    return _rows(
        database,
        "SELECT volume, started, ended, tenant, project, class, gib, price_per_gib_month, currency"
        " FROM storage_usage WHERE storage = ? ORDER BY started, gib",
        storage,
    )


def volume_ids(database: Database) -> frozenset[str]:
    """Of all volumes that there ever were."""
    return frozenset(row["id"] for row in _rows(database, "SELECT id FROM volume"))


def plan_used_at(database: Database, fingerprint: str) -> str:
    """When a saved plan was applied; empty if it was not."""
    with database.snapshot() as connection:
        row = connection.execute(
            "SELECT used_at FROM plan WHERE fingerprint = ?", (fingerprint,)
        ).fetchone()
        return row[0] if row else ""


def projected(database: Database, view: str) -> tuple[Row, ...]:
    """The rows of a projected view, by its word in `PROJECTED`."""
    return _rows(database, f"SELECT * FROM {PROJECTED[view]}")


PROJECTED: Mapping[str, str] = {
    "allocation": "projected_allocation ORDER BY ref",
    "slot": "projected_slot ORDER BY node, slot",
    "node": "projected_node ORDER BY node",
    "storage": "projected_storage ORDER BY ref",
    "attachment": "projected_attachment ORDER BY storage, since, allocation_id",
}


def _rows(database: Database, query: str, *values: str) -> tuple[Row, ...]:
    with database.snapshot() as connection:
        cursor = connection.execute(query, values)
        names = [column[0] for column in cursor.description]
        return tuple(dict(zip(names, row, strict=True)) for row in cursor)


def _event(row: Any) -> Event:
    return Event(
        sequence=row[0],
        at=row[1],
        type=EventType(row[2]),
        actor=row[3],
        ref=row[4],
        commit=row[5],
        before=json.loads(row[6]) if row[6] is not None else None,
        after=json.loads(row[7]) if row[7] is not None else None,
        reason=row[8],
        run=row[9],
        digest=row[10],
    )
