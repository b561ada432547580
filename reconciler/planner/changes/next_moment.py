"""The next moment: when time alone makes another plan of the same input."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from reconciler.kinds.access.keys import next_change
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.planner.access.suspensions import in_force as suspensions_in_force
from reconciler.planner.policy import acceptances
from reconciler.planner.policy import in_force as leniencies_in_force


def next_moment(desired: Desired, world: World, now: datetime, ahead: Iterable[datetime]) -> str:
    """When a key, a grant, a suspension, a lease, a wait or somebody's leniency ends next."""
    moments = [next_change(desired, now)]
    moments += [parse_moment(one.until) for one in suspensions_in_force(world.suspensions, now)]
    lenient = leniencies_in_force(acceptances(desired, world), now)
    moments += [parse_moment(one.until) for one in lenient]
    moments += ahead
    known = [moment for moment in moments if moment is not None and moment > now]
    return format_moment(min(known)) if known else ""
