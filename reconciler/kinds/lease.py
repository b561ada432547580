"""Lease: how long an allocation lives, by its spec, its project and the policy.

A lease is counted from a moment that is handed in, and kept once it is recorded: neither a plan
made later nor another policy moves the end of what lives already.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from reconciler.kinds.access.leave import OPEN_ENDED
from reconciler.kinds.allocation.spec import ALLOCATIONS, AllocationSpec
from reconciler.kinds.fleet_rules import policy_in
from reconciler.kinds.project import PROJECTS
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """What holds in one project; hours. `source` says who decided on the default."""

    default: int
    longest: int
    source: str = "policy"


def terms_of(project: str, desired: Desired) -> LeaseTerms:
    """The project's own, and for what it does not state those of the policy."""
    rules, own = policy_in(desired).lease, PROJECTS.get(desired, project)
    stated = own.spec.lease.default_hours if own else None
    longest = (own.spec.lease.max_hours if own else None) or rules.max_hours
    default = min(stated or rules.default_hours, longest)
    source = "project" if stated else "policy"
    return LeaseTerms(default=default, longest=longest, source=source)


def end_of(
    resource: Resource[AllocationSpec],
    recorded: Recorded | None,
    desired: Desired,
    counted_from: datetime,
) -> str:
    """When the time of an allocation is over; empty if it has no end.

    `recorded` is the allocation that stays, None for one that is to come. One that states no end
    keeps what it was given; who took a stated end out gets the default, from now on. So does one
    that was let go of and is taken back after its end: nobody has warned of that meanwhile.
    """
    stated = resource.spec.expires_at
    if stated is not None:
        return "" if stated == OPEN_ENDED else str(stated)
    if recorded is not None and ALLOCATIONS.applied(recorded).expires_at is None:
        kept = parse_moment(recorded.lease_until)
        if not recorded.forgotten:
            return recorded.expires_at
        if kept is not None and kept > counted_from:
            return recorded.lease_until
    return format_moment(after(counted_from, terms_of(resource.ref.project, desired).default))


def after(moment: datetime, hours: int) -> datetime:
    """So many hours later, at a full hour: nobody loses by it."""
    end = moment + timedelta(hours=hours)
    whole = end.replace(minute=0, second=0, microsecond=0)
    return whole if whole == end else whole + HOUR


def told(end: str) -> str:
    """The end as the session's environment has it."""
    return end or OPEN_ENDED
