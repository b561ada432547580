"""The state of the loop, in a few words below the status of the fleet."""

from __future__ import annotations

from reconciler.model.moment import format_age, parse_moment
from reconciler.operations.fleet import Fleet
from reconciler.operations.liveness.health import LoopCondition, health_of
from reconciler.operations.liveness.presence import read_presence

WORDS = {
    LoopCondition.DEGRADED: "loop degraded: gpuaas doctor",
    LoopCondition.HUNG: "loop hangs: gpuaas doctor",
    LoopCondition.GONE: "loop gone: gpuaas doctor",
    LoopCondition.ENDED: "loop ended",
}


def words(fleet: Fleet) -> str:
    """Empty where none ever ran."""
    now, said = fleet.now(), read_presence(fleet)
    health = health_of(fleet, said, now)
    if said is None or health.condition is not LoopCondition.WELL:
        return WORDS.get(health.condition, "")
    due = parse_moment(said.next_at)
    if due is None:
        return f"loop running, at {said.phase}"
    return f"loop running, next round in {format_age((due - now).total_seconds())}"
