"""The snapshot: the whole state as one World, read in one transaction and cheap to look into.

Nothing here reads a projected view. Rows of resources and observations are decoded when somebody
asks for them: a plan of an unchanged fleet asks for few.
"""

from __future__ import annotations

import gc
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from reconciler.model.canonical import digest
from reconciler.model.capacity import Claim, ClaimState, Shape
from reconciler.model.codec import decode
from reconciler.model.event import SERIAL_TYPES
from reconciler.model.evidence import NodeFacts, Observation
from reconciler.model.lifecycle import Phase, StepState
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.world import Counters, OpenStep, Recorded, Suspension, World
from reconciler.store.database import Database
from reconciler.store.refusals import damaged

Key = TypeVar("Key")
Value = TypeVar("Value")

_RESOURCES = (
    'SELECT kind, project, name, digest, basis, normal, file, "commit", applied_at, generation,'
    " phase, protect, id, login, node, slots, shape, facts, problem FROM resource"
)
_OPEN_STEPS = (
    "SELECT run, id, ref, verb, node, state, started FROM step"
    # An unknown step stays open until its host has said, after it ended, what is true.
    " WHERE state = 'open' OR state = 'unknown' AND NOT EXISTS (SELECT 1 FROM observation o"
    " WHERE o.node = step.node AND o.facts IS NOT NULL AND o.at >= step.finished)"
    " ORDER BY run, wave, id"
)
_LAST_OF_TYPE = "SELECT max(sequence) AS last FROM event WHERE type = ?"


class Rows(Mapping[Key, Value], Generic[Key, Value]):
    """Rows of one table by key, each decoded once, when it is first asked for."""

    def __init__(self, rows: dict[Key, Any], read: Callable[[Key, Any], Value]) -> None:
        self._rows = rows
        self._read = read
        self._values: dict[Key, Value] = {}

    def __getitem__(self, key: Key) -> Value:
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = self._read(key, self._rows[key])
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class RecordedRows(Rows[Ref, Recorded]):
    """`World.recorded` as the store gives it: knows every digest without decoding a row."""

    def digests(self) -> Mapping[Ref, tuple[str, str]]:
        """(digest, basis) of every resource."""
        return {ref: (row[3], row[4]) for ref, row in self._rows.items()}


def read_world(database: Database) -> World:
    """Everything the store knows, of one moment. Raises ProblemError if it makes no sense."""
    with database.snapshot() as connection, _without_collector():
        return World(
            state_id=_state_id(connection),
            serial=_serial(connection),
            recorded=_recorded(database, connection),
            claims=_claims(connection),
            observations=_observations(database, connection),
            counters=_counters(connection),
            waiting={
                _ref(ref): since
                for ref, since in connection.execute("SELECT ref, since FROM waiting ORDER BY ref")
            },
            open_steps=tuple(_open_step(row) for row in connection.execute(_OPEN_STEPS)),
            suspensions=tuple(
                Suspension(scope=scope, reason=reason, actor=actor, since=since, until=until)
                for scope, reason, actor, since, until in connection.execute(
                    "SELECT scope, reason, actor, since, until FROM suspension ORDER BY scope"
                )
            ),
        )


def read_serial(database: Database) -> tuple[str, int]:
    """(state id, serial): as long as they stay, so do recorded, claim and admin state."""
    with database.snapshot() as connection:
        return _state_id(connection), _serial(connection)


def read_stamp(database: Database) -> str:
    """Text that stays only as long as everything that a plan reads stays."""
    with database.snapshot() as connection:
        parts = connection.execute(
            "SELECT (SELECT state_id FROM state), (SELECT max(sequence) FROM event),"
            " (SELECT count(*) || max(at) || min(at) FROM observation)"
        ).fetchone()
    return "/".join(map(str, parts))


def read_digests(database: Database) -> Mapping[Ref, tuple[str, str]]:
    """(digest, basis) of every resource, from an index alone."""
    with database.snapshot() as connection, _without_collector():
        rows = connection.execute("SELECT kind, project, name, digest, basis FROM resource")
        return {Ref(kind, project, name): (one, basis) for kind, project, name, one, basis in rows}


def _state_id(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT state_id FROM state").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("it has no state id")
    state_id: str = row[0]
    return state_id


def _serial(connection: sqlite3.Connection) -> int:
    types = sorted(SERIAL_TYPES)
    query = f"SELECT max(last) FROM ({' UNION ALL '.join([_LAST_OF_TYPE] * len(types))})"
    serial: int = connection.execute(query, types).fetchone()[0] or 0
    return serial


def _recorded(database: Database, connection: sqlite3.Connection) -> RecordedRows:
    rows = {Ref(row[0], row[1], row[2]): row for row in connection.execute(_RESOURCES)}

    def read(ref: Ref, row: Any) -> Recorded:
        normal = _json(database, str(ref), row[5])
        if digest(normal) != row[3]:
            raise damaged(database.path, f"{ref} is not what was recorded")
        return Recorded(
            ref=ref,
            digest=row[3],
            basis=row[4],
            normal=normal,
            file=row[6],
            commit=row[7],
            applied_at=row[8],
            generation=row[9],
            phase=Phase(row[10]),
            protect=bool(row[11]),
            id=row[12],
            login=row[13],
            node=row[14],
            slots=tuple(_json(database, str(ref), row[15])),
            shape=Shape(row[16]) if row[16] else None,
            facts=_json(database, str(ref), row[17]),
            problem=row[18],
        )

    return RecordedRows(rows, read)


def _observations(database: Database, connection: sqlite3.Connection) -> Rows[str, Observation]:
    rows = connection.execute(
        "SELECT node, at, facts, digest, problem, message, unreachable_since FROM observation"
        " ORDER BY node"
    )

    def read(node: str, row: Any) -> Observation:
        facts = _json(database, f"node/{node}", row[2]) if row[2] is not None else None
        return Observation(
            node=node,
            at=row[1],
            facts=decode(NodeFacts, facts) if facts is not None else None,
            digest=row[3],
            problem=row[4],
            message=row[5],
            unreachable_since=row[6],
        )

    return Rows({row[0]: row for row in rows}, read)


def _claims(connection: sqlite3.Connection) -> tuple[Claim, ...]:
    rows: Iterable[Any] = connection.execute(
        "SELECT id, allocation_id, ref, node, slot, shape, state, since, tenant, project, problem"
        " FROM claim WHERE state <> 'freed' ORDER BY node, slot, id"
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
        )
        for row in rows
    )


def _counters(connection: sqlite3.Connection) -> Counters:
    counts = connection.execute("SELECT ref, count FROM incarnation")
    logins = connection.execute("SELECT login FROM login")
    return Counters(
        incarnations={_ref(ref): count for ref, count in counts},
        logins=frozenset(login for (login,) in logins),
    )


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


def _json(database: Database, what: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise damaged(database.path, f"{what} cannot be read ({error})") from error


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
