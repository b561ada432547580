"""The guard of revocations: a faulty merge would end the access of many people at once.

An explicit word, a suspension, is never held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum

from reconciler.kinds.access.keys import in_force
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.grant import GRANTS
from reconciler.kinds.project import PROJECTS
from reconciler.kinds.user import USERS, Key, UserSpec
from reconciler.model.moment import parse_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded
from reconciler.planner.context import Situation
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.effective_spec import NAMING, as_recorded
from reconciler.planner.diff.removals import REVOCATIONS, Held, stays

Limit = Callable[[int], int]


GUARD_HINT = (
    "bring back what is gone; or take it away in parts (--only), raise guard in the Policy, or say"
    " it in words: state: suspended"
)


class LostBy(StrEnum):
    """By what somebody would lose access; the value is what a plan calls all of that sort."""

    USERS = "users"
    GRANTS = "grants"
    MEMBERS = "members of projects"
    ACCESS = "people in access"
    ALL = "people"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """Somebody who would lose access by the absence of `what`, and the change it is in."""

    change: Ref
    what: LostBy
    person: str


def guard_revocations(
    situation: Situation, refused: Mapping[Ref, Problem], limit_of: Limit
) -> Iterator[tuple[Difference, Held]]:
    """Each difference that takes access away by absence, where they are too many at once.

    One that is refused for something else takes it away all the same. `limit_of` says how many of
    a number may go. A document that is too much by itself is held by itself: what others take away
    does not wait for it.
    """
    asked = [one for one in situation.differences if one.ref not in situation.approved]
    admitted = {
        one.ref: one
        for one in asked
        if (why := refused.get(one.ref)) is None
        or (one.ref.kind != "grant" and not stays(one, why))
    }
    losses = list(_losses(admitted.values(), situation))
    if not losses or len(losses) <= limit_of(0):
        return
    by_change: dict[Ref, list[_Loss]] = {}
    for loss in losses:
        by_change.setdefault(loss.change, []).append(loss)
    rest: list[_Loss] = []
    totals = _totals(situation)
    for ref, its in by_change.items():
        over = next(_over(its, totals, limit_of), None) if len(its) > limit_of(0) else None
        if over is None:
            rest += its
        else:
            yield admitted[ref], (REVOCATIONS, over, GUARD_HINT)
    over = next(_over(rest, totals, limit_of), None)
    if over is not None:
        for ref in dict.fromkeys(loss.change for loss in rest):
            yield admitted[ref], (REVOCATIONS, over, GUARD_HINT)


def _losses(differences: Iterable[Difference], situation: Situation) -> Iterator[_Loss]:
    for one in differences:
        recorded, kind = one.recorded, one.ref.kind
        if recorded is None:
            continue
        if kind == "user" and one.action in (Action.FORGET, Action.RENAME):
            if USERS.applied(recorded).is_active:
                yield _Loss(change=one.ref, what=LostBy.USERS, person=recorded.ref.name)
        elif kind == "user" and one.resource is not None:
            if _is_shut_out(one, USERS.applied(recorded), USERS.spec(one.resource), situation):
                yield _Loss(change=one.ref, what=LostBy.USERS, person=one.ref.name)
        elif kind == "grant" and _is_ended(one, recorded, situation):
            yield _Loss(change=one.ref, what=LostBy.GRANTS, person=GRANTS.applied(recorded).user)
        elif kind in NAMING and one.resource is not None and recorded.phase is Phase.ACTIVE:
            what = LostBy.MEMBERS if kind == "project" else LostBy.ACCESS
            for person in people(recorded) - people(one.resource):
                if _stays_active(person, situation):
                    yield _Loss(change=one.ref, what=what, person=person)


def _is_shut_out(
    difference: Difference, before: UserSpec, after: UserSpec, situation: Situation
) -> bool:
    """Whether somebody active loses all keys, or is suspended by something other than their own
    file.

    That may be a reading of a document in error, which may be anybody's.
    """
    if not before.is_active:
        return False
    read = difference.ref in situation.desired.lessened
    if not after.is_active:
        return read
    opens, opened = (_open_keys(one, situation.now if read else None) for one in (after, before))
    return bool(opened) and not opens


def _open_keys(user: UserSpec, now: datetime | None) -> list[Key]:
    """Those whose time is not over by `now`; all of them where that is not asked."""
    ends = ((key, parse_moment(key.expires_at or "")) for key in user.keys)
    return [key for key, end in ends if now is None or end is None or end > now]


def _is_ended(difference: Difference, recorded: Recorded, situation: Situation) -> bool:
    """Whether a grant that lets in somebody does so no more, or for less by a reading alone."""
    now = situation.now
    if now is not None and not in_force(as_recorded(recorded), now):
        return False
    return difference.action is Action.FORGET or difference.ref in situation.desired.lessened


def _over(
    losses: Iterable[_Loss], totals: Mapping[LostBy, set[object]], limit_of: Limit
) -> Iterator[str]:
    """What is more than may go at once: of one sort, or of all people."""
    users = {loss.person for loss in losses if loss.what is LostBy.USERS}
    lost: dict[LostBy, set[object]] = {}
    for loss in losses:
        if loss.what is LostBy.USERS:
            lost.setdefault(loss.what, set()).add(loss.person)
        elif loss.person not in users:
            one: object = loss.change if loss.what is LostBy.GRANTS else loss.person
            lost.setdefault(loss.what, set()).add(one)
    lost[LostBy.ALL] = {loss.person for loss in losses}
    for what, gone in lost.items():
        limit = limit_of(len(totals[what]))
        if len(gone) > limit:
            yield (
                f"{len(gone)} of {len(totals[what])} {what} would be shut out at once by what is no"
                f" longer in the specs, or in error there, more than {limit}"
            )


def _totals(situation: Situation) -> dict[LostBy, set[object]]:
    totals: dict[LostBy, set[object]] = {what: set() for what in LostBy}
    world = situation.world
    totals[LostBy.USERS].update(ref.name for ref in world.refs_of("user"))
    totals[LostBy.GRANTS].update(world.refs_of("grant"))
    for kind, what in (("project", LostBy.MEMBERS), ("allocation", LostBy.ACCESS)):
        for ref in world.refs_of(kind):
            totals[what] |= people(world.recorded[ref])
    return {**totals, LostBy.ALL: totals[LostBy.USERS]}


def people(stated: Resource | Recorded) -> set[str]:
    """The people whom a project or an allocation lets in."""
    if stated.ref.kind == "project":
        return {member.user for member in PROJECTS.spec(stated).members}
    return set(ALLOCATIONS.spec(stated).access)


def _stays_active(person: str, situation: Situation) -> bool:
    """Whether nothing else shuts somebody out, such as a word that they are suspended."""
    ref = Ref("user", "", person)
    found = situation.desired.resources.get(ref) or situation.world.recorded.get(ref)
    return found is not None and USERS.spec(found).is_active
