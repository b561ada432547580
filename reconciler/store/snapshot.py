"""The snapshot: the whole state as one World, read in one transaction and cheap to look into.

Nothing here reads a projected view. Rows of resources and observations are decoded when somebody
asks for them: a plan of an unchanged fleet asks for few.
"""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reconciler.model.codec import decode
from reconciler.model.host.capacity import Claim, ClaimState, Shape
from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.plan.lifecycle import Phase, StepState
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.state.world import FORGOTTEN, Counters, OpenStep, Recorded, World
from reconciler.store.file.database import Database
from reconciler.store.rows import JsonText, RecordedRows, Rows, read_json
from reconciler.store.serial import serial, state_id
from reconciler.store.tables.acceptances import read_acceptances
from reconciler.store.tables.attachments import read_attachments
from reconciler.store.tables.cleanups import read_idle, read_overrides
from reconciler.store.tables.consents import read_unused
from reconciler.store.tables.failures import read_failures
from reconciler.store.tables.installs import read_installs
from reconciler.store.tables.removals import read_removals
from reconciler.store.tables.revocations import read_revocations
from reconciler.store.tables.runs import read_program
from reconciler.store.tables.suspensions import read_suspensions
from reconciler.store.tables.taints import floors, highest, read_doubts
from reconciler.store.tables.volumes import read_volumes, read_wiped

_RESOURCES = (
    'SELECT kind, project, name, digest, basis, normal, file, "commit", applied_at, generation,'
    " phase, protect, id, login, node, slots, shape, facts, problem, expires_at, undo_until"
    " FROM resource"
)
_OPEN_STEPS = (
    "SELECT run, id, ref, verb, node, state, started FROM step"
    # An unknown step stays open until its host has said, after it ended, what is true.
    " WHERE state = 'open' OR state = 'unknown' AND NOT EXISTS (SELECT 1 FROM observation o"
    " WHERE o.node = step.node AND o.facts IS NOT NULL AND o.at >= step.finished)"
    " ORDER BY run, wave, id"
)


def read_world(database: Database) -> World:
    """Everything the store knows, of one moment. Raises ProblemError if it makes no sense."""
    with database.snapshot() as connection, _without_collector():
        claims = _claims(connection)
        return World(
            state_id=state_id(connection),
            serial=serial(connection),
            recorded=_recorded(database, connection),
            claims=claims,
            observations=_observations(database, connection),
            counters=_counters(connection),
            waiting=_since(connection, "SELECT ref, since FROM waiting ORDER BY ref"),
            lapsed=_since(connection, "SELECT ref, since FROM lapsed ORDER BY ref"),
            open_steps=tuple(_open_step(row) for row in connection.execute(_OPEN_STEPS)),
            suspensions=read_suspensions(connection),
            accepted_drift=tuple(read_acceptances(connection)),
            revocations=tuple(read_revocations(connection, claims)),
            doubts=read_doubts(connection),
            overrides=read_overrides(connection),
            idle_mib=read_idle(connection),
            volumes=read_volumes(connection),
            attachments=read_attachments(connection),
            wiped=read_wiped(connection),
            installs=read_installs(connection),
            failures=read_failures(connection),
            written_by=read_program(connection),
            consents=read_unused(connection),
            removals=read_removals(connection),
        )


def read_digests(database: Database) -> Mapping[Ref, tuple[str, str]]:
    """(digest, basis) of every resource, from an index alone."""
    with database.snapshot() as connection, _without_collector():
        rows = connection.execute("SELECT kind, project, name, digest, basis FROM resource")
        return {Ref(kind, project, name): (one, basis) for kind, project, name, one, basis in rows}


def _recorded(database: Database, connection: sqlite3.Connection) -> RecordedRows:
    path, phases = database.path, {phase.value: phase for phase in Phase}

    def read(ref: Ref, row: Any) -> Recorded:
        return Recorded(
            ref=ref,
            digest=row[3],
            basis=row[4],
            normal=JsonText(row[5], path, row[3]),
            file=row[6],
            commit=row[7],
            applied_at=row[8],
            generation=row[9],
            phase=phases[row[10]],
            protect=row[11] == 1,
            id=row[12],
            login=row[13],
            node=row[14],
            slots=tuple(read_json(row[15], path)) if row[15] != "[]" else (),
            shape=Shape(row[16]) if row[16] else None,
            facts=JsonText(row[17], path),
            problem=row[18],
            expires_at="" if row[18] == FORGOTTEN else row[19],
            lease_until=row[19] if row[18] == FORGOTTEN else "",
            undo_until=row[20],
        )

    return RecordedRows(
        {Ref(row[0], row[1], row[2]): row for row in connection.execute(_RESOURCES)}, read
    )


def _observations(database: Database, connection: sqlite3.Connection) -> Rows[str, Observation]:
    rows = connection.execute(
        "SELECT node, at, facts, digest, problem, message, unreachable_since, answered_at"
        " FROM observation ORDER BY node"
    )

    def read(node: str, row: Any) -> Observation:
        facts = None if row[2] is None else decode(NodeFacts, read_json(row[2], database.path))
        return Observation(
            node=node,
            at=row[1],
            facts=facts,
            digest=row[3],
            problem=row[4],
            message=row[5],
            unreachable_since=row[6],
            answered_at=row[7],
        )

    return Rows({row[0]: row for row in rows}, read)


def _claims(connection: sqlite3.Connection) -> tuple[Claim, ...]:
    rows: Iterable[Any] = connection.execute(
        "SELECT id, claim.allocation_id, ref, node, slot, shape, state, claim.since, tenant,"
        " project, problem, coalesce(machine_id, ''), blocked_since, coalesce(lease.since, '')"
        " FROM claim LEFT JOIN claim_machine ON claim_machine.claim = id"
        " LEFT JOIN lease ON lease.allocation_id = claim.allocation_id"
        " WHERE state <> 'freed' ORDER BY node, slot, id"
    )
    return tuple(
        Claim(
            id=row[0],
            allocation_id=row[1],
            ref=_ref(row[2]),
            node=row[3],
            slot=row[4],
            shape=Shape(row[5]),
            state=ClaimState(row[6]),
            since=row[7],
            tenant=row[8],
            project=row[9],
            problem=row[10],
            machine_id=row[11],
            blocked_since=row[12],
            lease_since=row[13],
        )
        for row in rows
    )


def _counters(connection: sqlite3.Connection) -> Counters:
    counts = connection.execute("SELECT ref, count FROM incarnation")
    login_of = dict(connection.execute("SELECT allocation_id, login FROM login").fetchall())
    numbers = connection.execute("SELECT kind, owner, number, ended FROM posix_id").fetchall()
    last, least = highest(connection), floors(connection)
    return Counters(
        incarnations={_ref(ref): count for ref, count in counts},
        logins=frozenset(login_of.values()),
        login_of=login_of,
        uids={owner: number for kind, owner, number, _ in numbers if kind == "uid"},
        gids={owner: number for kind, owner, number, end in numbers if kind == "gid" and not end},
        given_gids=frozenset(number for kind, _, number, _ in numbers if kind == "gid"),
        last_uid=last["uid"],
        last_gid=last["gid"],
        least_uid=least.get("uid", 0),
        least_gid=least.get("gid", 0),
        least_incarnation=least.get("incarnation", 0),
    )


def _since(connection: sqlite3.Connection, query: str) -> Mapping[Ref, str]:
    return {_ref(ref): since for ref, since in connection.execute(query)}


def _open_step(row: Any) -> OpenStep:
    return OpenStep(
        run=row[0],
        step=row[1],
        ref=_ref(row[2]),
        verb=row[3],
        node=row[4],
        state=StepState(row[5]),
        started=row[6],
    )


def _ref(text: str) -> Ref:
    ref = parse_ref(text)
    if ref is None:
        raise sqlite3.DatabaseError(f"{text!r} is no ref")
    return ref


@contextmanager
def _without_collector() -> Iterator[None]:
    """A big read makes no cycles; the collector would walk all of it again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
