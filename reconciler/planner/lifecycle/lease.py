"""Leases at the moment of the plan: what may begin, how long it may live, who may join.

Taking away is refused to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from reconciler.kinds.access.leave import OPEN_ENDED
from reconciler.kinds.fleet_rules import policy_in
from reconciler.kinds.lease import after, end_of, terms_of
from reconciler.kinds.project import PROJECTS
from reconciler.model.host.capacity import Claim
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.plan import Action
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.rules import first_refusal
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.refusal import Refusal, problem_of
from reconciler.planner.lifecycle.expiry import leaving

LASTS = frozenset({Action.CHANGE, Action.RESTART, Action.RENAME, Action.RESTORE, Action.REPLACE})
"""Actions after which a lease goes on that has begun before."""

JOINS = frozenset({Action.CREATE, Action.CHANGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """What one document asks for, and the moment. `claims` are those it has already."""

    difference: Difference
    resource: Resource
    desired: Desired
    world: World
    now: datetime
    leases_from: datetime
    claims: tuple[Claim, ...]
    leaving: Mapping[Ref, str]

    @property
    def begins(self) -> bool:
        return self.difference.action is Action.CREATE

    @property
    def end(self) -> str:
        recorded = None if self.begins else self.difference.recorded
        return end_of(self.resource, recorded, self.desired, self.leases_from)


def refuse_leases(
    differences: Iterable[Difference],
    desired: Desired,
    world: World,
    now: datetime,
    leases_from: datetime | None = None,
) -> Mapping[Ref, Problem]:
    """The first objection to each allocation or grant that would begin, last or join."""
    asked = [d for d in differences if d.ref.kind in RULES and d.resource is not None]
    gone = leaving(differences, world) if any(d.ref.kind == "grant" for d in asked) else {}
    refs = {d.former or d.ref for d in asked}
    claims: dict[Ref, list[Claim]] = {}
    for claim in world.claims:
        if claim.ref in refs:
            claims.setdefault(claim.ref, []).append(claim)
    refused = {}
    for difference in asked:
        assert difference.resource is not None
        wish = LeaseRequest(
            difference=difference,
            resource=difference.resource,
            desired=desired,
            world=world,
            now=now,
            leases_from=leases_from or now,
            claims=tuple(claims.get(difference.former or difference.ref, ())),
            leaving=gone,
        )
        if found := first_refusal(RULES[difference.ref.kind], wish):
            refused[difference.ref] = problem_of(difference, found)
    return refused


def _lapsed(wish: LeaseRequest) -> Refusal | None:
    """Its lease ended and it was released for that: the same file does not create it again."""
    since = wish.world.lapsed.get(wish.resource.ref)
    stated = parse_moment(wish.resource.spec.expires_at or "")
    if since is None or not wish.begins or (stated is not None and stated > wish.now):
        return None
    message = f"its time was over, and it was released for that on {since}"
    hint = "state an expiresAt to come to have it anew, or remove its file"
    return Refusal("lease_lapsed", message, hint)


def _over(wish: LeaseRequest) -> Refusal | None:
    end = parse_moment(wish.end)
    if not wish.begins or end is None or end > wish.now:
        return None
    message = f"its time was over on {wish.end}, before it began"
    return Refusal("lease_lapsed", message, "state a time to come, or remove it")


def _too_long(wish: LeaseRequest) -> Refusal | None:
    """Counted from when it began. An allocation that already lives as long as it may is not
    shortened.
    """
    recorded = wish.difference.recorded
    if not wish.begins and wish.difference.action not in LASTS:
        return None
    if not wish.begins and recorded is not None and wish.end == recorded.expires_at:
        return None
    begun = [moment for claim in wish.claims if (moment := parse_moment(claim.begun))]
    start = wish.leases_from if wish.begins or not begun else min(begun)
    terms, end = terms_of(wish.resource.ref.project, wish.desired), parse_moment(wish.end)
    last = after(start, terms.longest)
    if end is None or end <= last:
        return None
    message = f"it would live until {wish.end}; {terms.longest} h from its begin are the most"
    hint = f"state {format_moment(last)} or an earlier time"
    return Refusal("lease_too_long", message, hint)


def _endless(wish: LeaseRequest) -> Refusal | None:
    """Where its project is in error, its document is not refused for that."""
    project = PROJECTS.get(wish.desired, wish.resource.ref.project)
    if wish.resource.spec.expires_at != OPEN_ENDED or project is None:
        return None
    recorded = None if wish.begins else wish.difference.recorded
    lease = project.spec.lease
    if (lease and lease.may_be_open_ended) or (recorded is not None and not recorded.expires_at):
        return None
    message = f"project {project.ref.name} may not keep allocations without an end"
    return Refusal("lease_too_long", message, "state a time")


def _waited_enough(wish: LeaseRequest) -> Refusal | None:
    """A request that gave up waiting is not surprised by a place afterwards."""
    if wish.difference.action is not Action.CREATE or wish.claims or wish.difference.recorded:
        return None
    until = gives_up(wish.resource, wish.desired, wish.world)
    if until is None or until > wish.now:
        return None
    message = f"it waited for room until {format_moment(until)}, and gave up"
    hint = "state a later waitUntil to wait on, or remove its file"
    return Refusal("wait_over", message, hint)


def gives_up(resource: Resource, desired: Desired, world: World) -> datetime | None:
    """When a request stops waiting: as it states, else by the policy, from when it was first
    seen.
    """
    if resource.spec.wait_until is not None:
        return parse_moment(resource.spec.wait_until)
    since = parse_moment(world.waiting.get(resource.ref, ""))
    hours = policy_in(desired).wait.max_hours
    return since + timedelta(hours=hours) if since else None


def ends_of_waits(desired: Desired, world: World) -> Iterator[datetime]:
    """When each waiting request gives up."""
    for ref in world.waiting:
        resource = desired.resources.get(ref)
        until = gives_up(resource, desired, world) if resource else None
        if until is not None:
            yield until


def _joins_what_leaves(wish: LeaseRequest) -> Refusal | None:
    spec = wish.resource.spec
    state = wish.leaving.get(Ref("allocation", wish.resource.ref.project, spec.allocation))
    if state is None or wish.difference.action not in JOINS:
        return None
    hint = f"take the release back first, or remove {wish.resource.ref}"
    return Refusal("allocation_leaving", f"{state}: nobody joins it", hint)


RULES: Mapping[str, tuple[Callable[[LeaseRequest], Refusal | None], ...]] = {
    "allocation": (_lapsed, _over, _endless, _too_long, _waited_enough),
    "grant": (_joins_what_leaves,),
}
"""By kind, in order; the first refusal wins."""
