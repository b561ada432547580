"""The plan: from Desired, World and a moment to what, where, how and when.

Pure: same input, same bytes, and every refusal names its rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from reconciler.model.plan.plan import Action, Plan
from reconciler.model.problem import HELD_CODES, Problem
from reconciler.model.ref import Ref, parsed
from reconciler.model.spec.desired import Origin
from reconciler.planner.access.suspensions import loop_suspensions, scopes_at
from reconciler.planner.admission import admit
from reconciler.planner.assemble import assemble
from reconciler.planner.changes.authors import origins_in, origins_of
from reconciler.planner.changes.outcome import context_of, outcome
from reconciler.planner.changes.scope import Scope, taken_by
from reconciler.planner.context import Said, Situation
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.core.seat import Unseated
from reconciler.planner.diff.name_changes import MOST_TURNS, claimants, objection, rivals
from reconciler.planner.diff.resources import compare
from reconciler.planner.diff.unsound import as_judged, with_remainders
from reconciler.planner.features.contract import Draft
from reconciler.planner.features.registry import FEATURES
from reconciler.planner.placement.assign import Seating, seat_all


def plan(request: PlanRequest) -> Plan:
    """Everything that would be done, and everything that would not, and why.

    Raises ProblemError for a ref in `only` that does not exist, or a template that is unsound.
    """
    request = _in_force_now(request)
    declined: Mapping[Ref, Problem] = {}
    for turn in count():
        everything = _differences(request, declined)
        made = _scoped(request, everything)
        refused = dict(_refused_renames(request, everything, made))
        if refused.keys() <= declined.keys():
            return made
        declined = {**declined, **refused}
        if turn >= MOST_TURNS:
            declined = {**rivals(declined, request.desired), **declined}
    raise AssertionError("a name is declined once")


def _in_force_now(request: PlanRequest) -> PlanRequest:
    """The request with whom suspensions shut out, and with what errors leave of documents."""
    shut_out = scopes_at(request.world.suspensions, request.now)
    if request.unattended:
        left = loop_suspensions(request.world.suspensions, request.now).values()
        shut_out |= {one.scope for one in left}
    desired = with_remainders(request.desired, request.world)
    return replace(request, desired=replace(desired, suspended=shut_out))


def _differences(request: PlanRequest, declined: Mapping[Ref, Problem]) -> tuple[Difference, ...]:
    """Everything that is not as recorded, adjusted to this moment and to what is on hosts."""
    found = tuple(compare(request.desired, request.world, declined))
    for feature in FEATURES:
        found = feature.adjust(found, request)
    return found


def _scoped(request: PlanRequest, everything: tuple[Difference, ...]) -> Plan:
    """The plan of what was asked for, and of the hosts that it turns out to need."""
    scope = Scope(request.only, request.desired, request.world).widened(everything)
    if hosts := scope.hosts(everything):
        wide = _made(request, scope.widened(everything, hosts), everything)
        scope = scope.widened(everything, hosts & taken_by(wide.claims))
    return _made(request, scope, everything)


def _made(request: PlanRequest, scope: Scope, everything: tuple[Difference, ...]) -> Plan:
    draft = _refuse(_begin(request, scope, everything))
    for feature in FEATURES:
        draft = feature.prepare(draft)
    draft = _place(draft)
    for feature in FEATURES:
        draft = feature.work(draft)
    return assemble(draft, scope, FEATURES)


def _begin(request: PlanRequest, scope: Scope, everything: tuple[Difference, ...]) -> Draft:
    """What was asked for, and what admission refuses of it."""
    differences = scope.limit(everything)
    origins = origins_of(request, differences)
    situation = _situation(request, differences, origins)
    refused = admit(situation)
    return Draft(
        request=request,
        everything=everything,
        differences=differences,
        admitted=[one for one in differences if one.ref not in refused],
        judged=as_judged(request.desired, request.world, everything),
        origins=origins,
        situation=situation,
        context=context_of(request, origins=origins),
        reaches=lambda ref: scope.reaches(ref, ()),
        refused=refused,
    )


def _refuse(draft: Draft) -> Draft:
    """The draft with what features refuse; each looks at it as if no other objected."""
    for feature in FEATURES:
        draft = draft.refusing(feature.refuse(draft))
    desired = outcome(draft.request, draft.everything, draft.differences, draft.refused)
    return replace(draft, context=replace(draft.context, desired=desired))


def _place(draft: Draft) -> Draft:
    """Place every request, or give the reason why it has no place; then settle what will be in
    force.
    """
    request = draft.request
    seats = seat_all(
        Seating(
            desired=draft.context.desired,
            specs=request.desired,
            world=request.world,
            now=request.now,
            refused=draft.refused,
            origins=draft.origins,
            differences=draft.differences,
            reservations=draft.reservations,
            preparing=draft.preparing,
        )
    )
    unseated = {ref: seat.problem for ref, seat in seats.items() if isinstance(seat, Unseated)}
    draft = replace(draft.refusing(unseated), seats=seats)
    desired = outcome(request, draft.everything, draft.differences, draft.refused)
    context = replace(draft.context, desired=desired)
    for feature in FEATURES:
        context = feature.inform(draft, context)
    return replace(draft, context=context)


def _refused_renames(
    request: PlanRequest, everything: tuple[Difference, ...], made: Plan
) -> Iterator[tuple[Ref, Problem]]:
    """Renames that are refused: what had the former name has gone, and `only` may name it.

    A rename that waits for approval is not among them.
    """
    renames = {one.ref for one in everything if one.action is Action.RENAME}
    if renames and request.only:
        made = _scoped(replace(request, only=()), everything)
    for change in made.changes:
        problem = change.problem
        if change.ref in renames and problem is not None and problem.code not in HELD_CODES:
            yield change.ref, problem
    for resource, recorded in claimants(everything, request.desired):
        files = {resource.ref: resource.file, recorded.ref: recorded.file}
        gone = {recorded.ref: (recorded.commit, recorded.applied_at)}
        origins = origins_in(request, files, gone)
        problem = objection(resource, recorded, _situation(request, everything, origins))
        if problem is not None:
            yield resource.ref, problem


def _situation(
    request: PlanRequest, differences: Sequence[Difference], origins: Mapping[Ref, Origin]
) -> Situation:
    said = Said(
        origins=origins,
        uncommitted=frozenset(request.uncommitted),
        forced=parsed(request.forced.refs),
        now=request.now,
        unattended=request.unattended,
    )
    return Situation(request.desired, request.world, tuple(differences), request.hold_above, said)
