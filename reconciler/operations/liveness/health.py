"""Health of the loop: one that hangs is told from one that sleeps."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from reconciler.model.moment import parse_moment
from reconciler.model.records import dataclass
from reconciler.operations.fleet import Fleet
from reconciler.operations.liveness.lease import is_held
from reconciler.operations.liveness.presence import ENDED, Presence

LATE_SECONDS = 120
"""So long after its time a round may begin."""

WORK_SECONDS = 900
"""So long a host may be at one thing, of which nothing is heard meanwhile."""


class LoopCondition(StrEnum):
    """How a loop is, as its lock and its last word show. Only the first two are of one that works.

    `ended`: somebody wished it. `gone`: it was killed, or its machine went down.
    """

    WELL = "well"
    DEGRADED = "degraded"
    HUNG = "hung"
    GONE = "gone"
    ENDED = "ended"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHealth:
    """`why` is empty for a loop that works as it should, else what is wrong with it."""

    condition: LoopCondition
    why: str = ""


def health_of(fleet: Fleet, said: Presence | None, now: datetime) -> LoopHealth:
    if said is None:
        return LoopHealth(condition=LoopCondition.NEVER, why="no loop has run yet")
    if not is_held(fleet):
        if said.phase == ENDED:
            return LoopHealth(condition=LoopCondition.ENDED, why=f"it was ended at {said.said_at}")
        why = f"no loop is running; the last one said something at {said.said_at}"
        return LoopHealth(condition=LoopCondition.GONE, why=why)
    due = due_of(said)
    if due is None or now - due > timedelta(seconds=LATE_SECONDS):
        why = f"it hangs: nothing was heard of it since {said.said_at}, at {said.phase or 'rest'}"
        return LoopHealth(condition=LoopCondition.HUNG, why=why)
    condition = LoopCondition.DEGRADED if said.degraded else LoopCondition.WELL
    return LoopHealth(condition=condition, why=said.degraded)


def due_of(said: Presence) -> datetime | None:
    """When it is to say something again: at its next round, or as soon as a host is done."""
    due = parse_moment(said.next_at or said.said_at)
    more = timedelta(seconds=0 if said.next_at else WORK_SECONDS)
    return None if due is None else due + more
