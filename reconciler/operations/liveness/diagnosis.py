"""Diagnosis of the loop, for `gpuaas doctor`: what is wrong with one that has run here.

A fleet in which none ever ran needs none.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.records import dataclass
from reconciler.model.symptom import Diagnosis, Sort
from reconciler.operations.fleet import Fleet
from reconciler.operations.liveness.health import LoopCondition, health_of
from reconciler.operations.liveness.presence import read_presence
from reconciler.operations.views import LoopRow


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    code: str
    sort: Sort
    command: str


ROWS = {
    LoopCondition.HUNG: _Row(code="loop_hung", sort=Sort.STUCK, command="gpuaas runbook loop_hung"),
    LoopCondition.GONE: _Row(code="loop_gone", sort=Sort.STUCK, command="gpuaas reconcile"),
    LoopCondition.ENDED: _Row(code="loop_ended", sort=Sort.STALE, command="gpuaas reconcile"),
    LoopCondition.DEGRADED: _Row(
        code="loop_degraded", sort=Sort.STALE, command="gpuaas runbook loop_degraded"
    ),
}


def loop_row(fleet: Fleet) -> LoopRow | None:
    """The row of the loop; None where none has run."""
    said = read_presence(fleet)
    if said is None:
        return None
    health = health_of(fleet, said, fleet.now())
    return LoopRow(
        condition=health.condition,
        why=health.why,
        actor=said.actor,
        pid=said.pid,
        since=said.since,
        said_at=said.said_at,
        phase=said.phase,
        next_at=said.next_at,
        commit=said.commit,
        source=said.source,
        rounds=said.rounds,
    )


def diagnose_loop(fleet: Fleet) -> Iterator[Diagnosis]:
    said = read_presence(fleet)
    health = health_of(fleet, said, fleet.now())
    row = ROWS.get(health.condition)
    if row is not None and said is not None:
        yield Diagnosis(
            sort=row.sort,
            code=row.code,
            about="loop",
            text=f"the loop: {health.why}",
            since=said.said_at,
            command=row.command,
        )
