"""Name changes: whether a document may take over what others have under another name.

A rename keeps a place, a login and data. It may where these stay with whom they were recorded for,
or where its author may give in that project; and where the former name has really gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.model.plan.plan import Action
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded
from reconciler.planner.context import Situation
from reconciler.planner.core.authorship import author_in, doubted
from reconciler.planner.core.difference import Difference
from reconciler.planner.diff.removals import uncommitted
from reconciler.planner.diff.renames import unsound

KEEPING = frozenset({"allocation", "storage"})
"""Kinds of which a rename keeps what somebody has. A grant under another name is given anew."""

CODE = "rename_unsound"
MOST_TURNS = 4
"""How many who claim one name are judged one after the other, beyond those who have no part in it:
nobody keeps a plan from being made by a crowd of claims."""


def hindrance(difference: Difference, situation: Situation) -> str:
    """Why it may not take over what its former name has; empty if it may, or takes over nothing."""
    former, resource = difference.former, difference.resource
    if former is None or resource is None:
        return ""
    gone = Difference(ref=former, action=Action.FORGET, recorded=difference.recorded)
    held = uncommitted(gone, situation)
    if held is not None:
        _, message, hint = held
        return f"{message} ({hint})"
    return _not_theirs(resource, former, difference.recorded, situation)


def _not_theirs(
    resource: Resource, former: Ref, recorded: Recorded | None, situation: Situation
) -> str:
    ref, origins = resource.ref, situation.origins
    if ref.kind not in KEEPING:
        return ""
    given, taken = origins.get(ref, Origin()), origins.get(former)
    owner = _owner(recorded) if recorded else None
    if owner is not None and owner == _owner(resource):
        return ""
    if given.doubt is not None:
        return doubted(given.doubt)[0]
    if owner is None and taken is not None and _by_the_same(given, taken):
        return ""
    author = author_in(ref.project, situation.desired, situation.world, given)
    if author.may_grant:
        return ""
    whose = f"it is {owner}'s" if owner else "others took it away"
    return f"{whose}, and {author.told}"


def _owner(stated: Resource | Recorded) -> str | None:
    """Data of a project is no person's."""
    return ALLOCATIONS.spec(stated).owner if stated.ref.kind == "allocation" else None


def _by_the_same(given: Origin, taken: Origin) -> bool:
    """Whether whoever wrote the one has taken away the other."""
    if given.commit == taken.commit and taken.doubt is None:
        return True
    return bool(taken.commit and given.commit) and given.email.lower() == taken.email.lower()


def claimants(
    differences: Iterable[Difference], desired: Desired
) -> Iterator[tuple[Resource, Recorded]]:
    """Resources that claim a name beside others, or keep it from going though they have another."""
    held, taken = {}, {}
    for one in differences:
        if one.resource is None and one.problem is not None and one.problem.code == CODE:
            held[one.ref] = one.recorded
        if one.action is Action.RENAME and one.former is not None:
            taken[one.former] = one.recorded
    claims: dict[Ref, list[Resource]] = {}
    for resource in desired.resources.values() if held or taken else ():
        if resource.former_name:
            claims.setdefault(_former(resource), []).append(resource)
    for former, recorded in {**taken, **held}.items():
        claiming = claims.get(former, [])
        if recorded is not None and (former in held or len(claiming) > 1):
            yield from ((one, recorded) for one in claiming)


def rivals(declined: Mapping[Ref, Problem], desired: Desired) -> Mapping[Ref, Problem]:
    """Whoever claims a name that others have claimed in vain, and with what problem."""
    found = {_former(desired.resources[ref]): problem for ref, problem in declined.items()}
    return {
        ref: replace(found[former], ref=str(ref), source=one.source("metadata", "formerName"))
        for ref, one in desired.resources.items()
        if one.former_name and (former := _former(one)) in found
    }


def objection(resource: Resource, recorded: Recorded, situation: Situation) -> Problem | None:
    """The problem of one that claims what it may not have."""
    why = _not_theirs(resource, recorded.ref, recorded, situation)
    if resource.ref.kind == "grant":
        given = situation.origins.get(resource.ref, Origin())
        author = author_in(resource.ref.project, situation.desired, situation.world, given)
        why = "" if author.may_grant else author.told
    return unsound(resource, recorded.ref, why) if why else None


def _former(resource: Resource) -> Ref:
    return resource.ref._replace(name=resource.former_name)
