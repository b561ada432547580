"""Failures of nodes: counted when a step of a wave ends, cleared by what comes after."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from reconciler.model.host.evidence import NodeFacts
from reconciler.model.moment import parse_moment
from reconciler.model.plan.plan import Order
from reconciler.model.plan.verb import Verb
from reconciler.model.plan.work import StepOutcome, WaveOutcome
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.model.state.failure import MOST, Failure, basis_of
from reconciler.model.state.world import Recorded
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_ref
from reconciler.store.transaction import EventDraft, Record

INTERRUPTED = "interrupted"
NOT_COUNTED = frozenset(
    {
        "host_unreachable",
        "host_busy",
        "host_rebooted",
        "host_identity_changed",
        "no_root_on_host",
    }
)
"""What says nothing of what the host can do, or what keeps it from being asked anyway."""

_NAMES = ("node", "count", "since", "at", "verb", "ref", "code", "message", "basis")
_READ = f"SELECT {', '.join(_NAMES)} FROM node_failure"


def read_failures(connection: sqlite3.Connection) -> Mapping[str, Failure]:
    return {row[0]: _failure(row) for row in connection.execute(f"{_READ} ORDER BY node")}


def conclude(record: Record, wave: WaveOutcome) -> None:
    """What a wave came to on each host: a failure in it counts more than what went well beside."""
    facts = {one.node: one.facts for one in wave.observations}
    by_node: dict[str, list[StepOutcome]] = {}
    for outcome in wave.steps:
        by_node.setdefault(outcome.step.node, []).append(outcome)
    for node, told in by_node.items():
        failed = next(filter(_is_failure, told), None)
        if failed is not None:
            _count(record, failed, facts.get(node))
        elif (known := _of(record, node)) and any(_clears(one, known) for one in told):
            clear(record, node, "it has done what it was asked for")


def keep(record: Record, recorded: Sequence[Recorded]) -> None:
    """A node whose document is another than when it was last recorded is tried as any other."""
    for one in recorded:
        if one.ref.kind == "node" and _of(record, one.ref.name):
            row = record.connection.execute(
                "SELECT digest FROM resource WHERE ref = ?", (str(one.ref),)
            ).fetchone()
            if row and row[0] != one.digest:
                clear(record, one.ref.name, "its document was changed")


def clear(record: Record, node: str, why: str) -> None:
    record.write(EventDraft(type=EventType.NODE_CLEARED, ref=Ref("node", "", node), reason=why))
    record.connection.execute("DELETE FROM node_failure WHERE node = ?", (node,))


def _count(record: Record, outcome: StepOutcome, facts: NodeFacts | None) -> None:
    step, problem = outcome.step, outcome.problem
    if problem is None:
        return
    known, now = _of(record, step.node), parse_moment(record.at)
    left = known.weight(facts, now) if known and now else 0
    one = Failure(
        node=step.node,
        count=min(left + 1, MOST),
        since=known.since if known and left else record.at,
        at=record.at,
        verb=step.verb,
        ref=step.ref,
        code=problem.code,
        message=problem.message,
        basis=basis_of(facts),
    )
    record.write(
        EventDraft(
            type=EventType.NODE_FAILED,
            ref=Ref("node", "", one.node),
            after={"count": one.count, "verb": one.verb, "ref": str(one.ref), "code": one.code},
            reason=one.message,
        )
    )
    record.connection.execute(
        f"INSERT OR REPLACE INTO node_failure ({', '.join(_NAMES)})"
        f" VALUES ({', '.join('?' * len(_NAMES))})",
        tuple(str(value) if value == one.ref else value for value in _values(one)),
    )


def _values(one: Failure) -> tuple[object, ...]:
    return tuple(getattr(one, name) for name in _NAMES)


def _of(record: Record, node: str) -> Failure | None:
    row = record.connection.execute(f"{_READ} WHERE node = ?", (node,)).fetchone()
    return _failure(row) if row else None


def _failure(row: Sequence[object]) -> Failure:
    values = dict(zip(_NAMES, row, strict=True))
    return Failure(**{**values, "ref": stored_ref(str(values["ref"]))})  # type: ignore[arg-type]


def _is_failure(outcome: StepOutcome) -> bool:
    """Whether a host could not be made ready, or could not give what it was to."""
    step, problem = outcome.step, outcome.problem
    about = step.verb == Verb.PREPARE or (
        step.order is Order.PROVIDE and step.ref.kind == "allocation"
    )
    if not about or outcome.ok or problem is None:
        return False
    # Whatever ended a preparation that had begun, no other host is prepared for its sake.
    broke_off = step.verb == Verb.PREPARE and (outcome.changed or outcome.unknown)
    if problem.code == INTERRUPTED or (problem.code in NOT_COUNTED and not broke_off):
        return False
    # A host that was spared, since preparing another one did that harm, has done nothing.
    return problem.code != "host_not_prepared" or outcome.unknown


def _clears(outcome: StepOutcome, failure: Failure) -> bool:
    """Whether what a host has done now is what it failed at, or more."""
    verb = outcome.step.verb
    return outcome.ok and (verb == Verb.PROVIDE or verb == Verb.PREPARE == failure.verb)


TABLE = Table(conclude=conclude, keep=keep, read={"failures": read_failures})
