"""Diagnosis of the loop: what is wrong with one that has run here, for `gpuaas doctor`.

A fleet in which none ever ran needs none.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.records import dataclass
from reconciler.model.symptom import Diagnosis, Sort
from reconciler.operations.reconcile.presence import Condition, health_of, read_presence
from reconciler.operations.wiring import Fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    code: str
    sort: Sort
    command: str


ROWS = {
    Condition.HUNG: _Row(code="loop_hung", sort=Sort.STUCK, command="gpuaas runbook loop_hung"),
    Condition.GONE: _Row(code="loop_gone", sort=Sort.STUCK, command="gpuaas reconcile"),
    Condition.ENDED: _Row(code="loop_ended", sort=Sort.STALE, command="gpuaas reconcile"),
    Condition.DEGRADED: _Row(
        code="loop_degraded", sort=Sort.STALE, command="gpuaas runbook loop_degraded"
    ),
}


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
