"""Grants at the moment of the plan: who may give one, and how long it may last.

Whom an allocation lets in by its `access` is judged by the same rule. Taking away is refused to
nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from reconciler.kinds.access.keys import in_force
from reconciler.kinds.access.leave import OPEN_ENDED
from reconciler.kinds.allocation.spec import ALLOCATIONS, AllocationSpec
from reconciler.kinds.fleet_rules import forbids_open_ends, policy_in
from reconciler.kinds.grant import GrantSpec
from reconciler.model.moment import parse_moment
from reconciler.model.plan.plan import Action
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.rules import first_refusal
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.planner.core.authorship import author_in, doubted
from reconciler.planner.core.difference import Difference, of_kind
from reconciler.planner.core.refusal import Refusal, problem_of

MEMBER = "member"
BEGINS = frozenset({Action.CREATE, Action.ADOPT, Action.RESTORE})
"""Actions by which somebody is let in who was not; all others give as well, by what they change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Giving:
    """A grant that is new, changed or renamed, and who wrote it last."""

    grant: Resource[GrantSpec]
    is_new: bool
    desired: Desired
    world: World
    origin: Origin
    now: datetime


def refuse_grants(
    differences: Iterable[Difference],
    desired: Desired,
    world: World,
    origins: Mapping[Ref, Origin],
    now: datetime,
) -> Mapping[Ref, Problem]:
    """The first objection to each grant that would be given or changed, and to each `access`."""
    refused = {}
    for one in of_kind(differences, "allocation"):
        if one.resource is not None:
            origin = origins.get(one.ref, Origin())
            found = _access_refused(one, one.resource, desired, world, origin)
            if found is not None:
                refused[one.ref] = problem_of(one, found)
    for one in of_kind(differences, "grant"):
        if one.resource is None or one.ref in desired.lessened:
            continue
        giving = Giving(
            grant=one.resource,
            is_new=one.action in BEGINS,
            desired=desired,
            world=world,
            origin=origins.get(one.ref, Origin()),
            now=now,
        )
        if found := first_refusal(RULES, giving):
            refused[one.ref] = problem_of(one, found)
    return refused


def _role_cannot_grant(giving: Giving) -> Refusal | None:
    """People known to the fleet are held to their role."""
    if giving.origin.doubt is not None:
        return Refusal(giving.origin.doubt, *doubted(giving.origin.doubt))
    project = giving.grant.ref.project
    author = author_in(project, giving.desired, giving.world, giving.origin)
    if author.may_grant:
        return None
    return Refusal(
        "role_cannot_grant",
        f"{author.told}, and wrote this grant",
        "an owner or a maintainer of the project, or an operator, may give one",
    )


def _access_refused(
    difference: Difference,
    allocation: Resource[AllocationSpec],
    desired: Desired,
    world: World,
    origin: Origin,
) -> Refusal | None:
    """Whoever may not give a grant lets in only themselves, as a member.

    Nor may a member take over, under another name, what somebody else leaves.
    """
    kept = difference.recorded if difference.action is not Action.CREATE else None
    before = ALLOCATIONS.applied(kept).access if kept is not None else ()
    added = set(allocation.spec.access) - set(before)
    if not added or allocation.ref in desired.lessened:
        return None
    if origin.doubt is not None:
        # Whoever is to own it has to be let in; and by whom that was written nobody can say.
        if added <= {allocation.spec.owner}:
            return None
        return Refusal(origin.doubt, *doubted(origin.doubt))
    author = author_in(allocation.ref.project, desired, world, origin)
    joins = author.role == MEMBER and difference.former is None
    others = added - author.names if joins else added
    if author.may_grant or not others:
        return None
    return Refusal(
        "role_cannot_grant",
        f"{author.told}, and lets in {', '.join(sorted(others))} by access",
        "an owner or a maintainer of the project, or an operator, lets in others",
    )


def _grant_expired(giving: Giving) -> Refusal | None:
    """An old grant stays as it is, and opens nothing; a new one was never meant that way."""
    spec = giving.grant.spec
    if not giving.is_new or in_force(giving.grant, giving.now):
        return None
    message = f"its time was over on {spec.expires_at}, before it was given"
    return Refusal("grant_expired", message, "state a time to come, or remove it")


def _grant_too_long(giving: Giving) -> Refusal | None:
    end = giving.grant.spec.expires_at
    moment = parse_moment(end)
    days = policy_in(giving.desired).grant.max_days
    if end == OPEN_ENDED and forbids_open_ends(giving.desired):
        message = "the Policy allows no grant without an end"
        return Refusal("grant_too_long", message, f"at most {days} days ahead")
    if end == OPEN_ENDED or moment is None or moment <= giving.now + timedelta(days=days):
        return None
    message = f"it would last until {end}, more than {days} days from now"
    return Refusal("grant_too_long", message, f"state a time within {days} days")


RULES: tuple[Callable[[Giving], Refusal | None], ...] = (
    _role_cannot_grant,
    _grant_expired,
    _grant_too_long,
)
