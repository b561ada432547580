"""The assembly of a plan: its changes with their steps in waves, and what is reported with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from reconciler.model.moment import format_moment
from reconciler.model.plan.plan import Change, Plan, Step, fingerprint
from reconciler.model.ref import Ref
from reconciler.planner.automation.guards import next_of_the_day
from reconciler.planner.automation.rules import next_turn_of
from reconciler.planner.automation.tickets import find_tickets, with_tickets
from reconciler.planner.changes.authors import with_origins
from reconciler.planner.changes.build import held_lines, write_lines
from reconciler.planner.changes.change_set import ChangeSet
from reconciler.planner.changes.line import Line
from reconciler.planner.changes.scope import Scope
from reconciler.planner.changes.summary import figures_of
from reconciler.planner.changes.waves import ACTIONS, in_waves
from reconciler.planner.core.next_moment import sooner
from reconciler.planner.core.policy import policy_of
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.diff.moves import moved
from reconciler.planner.diff.unsound import tell_errors
from reconciler.planner.features.contract import Draft, Feature


def assemble(draft: Draft, scope: Scope, features: Sequence[Feature]) -> Plan:
    """The plan of a draft that is settled."""
    request, world = draft.request, draft.request.world
    settled = _settled(draft)
    found = [line for line in _lines(draft, settled) if _within(line, scope)]
    lines = [line for line in found if not line.confirms]
    former = {c.ref: c.former for c in (line.change for line in lines) if c.former is not None}
    steps = [step for line in lines for step in line.steps]
    for feature in features:
        steps = feature.name(steps, draft, former)
    changes = _told(lines, steps, settled, draft, features)
    told_of = {change.ref for change in changes}
    claims = tuple(sorted((c for line in lines for c in line.claims), key=lambda c: c.id))
    figures = figures_of(draft.context.desired, world, request.now, changes, claims)
    touched = sum(change.ref in request.desired.resources for change in changes)
    made = Plan(
        revision=request.desired.revision,
        desired_digest=request.desired.digest,
        state_id=world.state_id,
        serial=world.serial,
        made_at=format_moment(request.now),
        changes=changes,
        confirmed=tuple(sorted((line.change for line in found if line.confirms), key=_rank)),
        moved={} if request.only else dict(moved(request.desired, world, told_of)),
        claims=claims,
        waves=in_waves(
            steps,
            _waits(lines, steps, features),
            last=lambda step: any(feature.is_last(step) for feature in features),
        ),
        waiting=tuple(settled.positions),
        problems=request.desired.problems,
        figures=replace(figures, unchanged=len(request.desired.resources) - touched),
        only=request.only,
        uncommitted=request.uncommitted,
        forced=request.forced,
        next_moment=sooner("", _turns(request), request.now),
        written_by=world.written_by,
    )
    for feature in features:
        made = feature.finish(made, draft)
    return replace(made, fingerprint=fingerprint(made))


def _settled(draft: Draft) -> ChangeSet:
    context = with_origins(draft.request, draft.context, draft.files)
    fingerprints = {ref: one.fingerprint for ref, one in draft.tasks.items() if one.fingerprint}
    return ChangeSet(
        context=context,
        refused=draft.refused,
        changed=draft.changed,
        seats=draft.seats,
        stale=draft.stale,
        tasks=draft.tasks,
        tickets=find_tickets(draft.situation, fingerprints, draft.refused),
    )


def _lines(draft: Draft, settled: ChangeSet) -> Iterator[Line]:
    yield from write_lines(draft.differences, settled)
    yield from held_lines(draft.held, settled)


def _within(line: Line, scope: Scope) -> bool:
    return scope.reaches(line.change.ref, (*line.change.caused_by, line.change.former))


def _told(
    lines: Iterable[Line],
    steps: Iterable[Step],
    settled: ChangeSet,
    draft: Draft,
    features: Sequence[Feature],
) -> tuple[Change, ...]:
    """The lines in their order, each saying all that there is to say about it."""
    ending = {step.ref: step for step in steps if step.revokes}
    told = []
    for change in (line.change for line in lines):
        for feature in features:
            change = feature.tell(change, ending, draft)
        told.append(tell_errors(change, draft.request.desired))
    return tuple(sorted(with_tickets(told, settled.tickets), key=_rank))


def _turns(request: PlanRequest) -> Iterator[datetime]:
    """When a guard or the Policy lets another part of this go alone."""
    alone = request.unattended or request.hold_above is not None
    freed = next_of_the_day(request.world, request.now) if alone else None
    yield from () if freed is None else (freed,)
    if request.unattended:
        policy = policy_of(request.desired, request.world)
        turn = next_turn_of(policy.automation, request.now)
        yield from () if turn is None else (turn,)


def _waits(
    lines: Iterable[Line], steps: Sequence[Step], features: Iterable[Feature]
) -> Mapping[str, frozenset[str]]:
    """What each step waits for: for its host's sake, and for its line's."""
    waits: dict[str, frozenset[str]] = {}
    found = (feature.waits(steps) for feature in features)
    for after in (*found, *(line.after for line in lines)):
        for step, needed in after.items():
            waits[step] = waits.get(step, frozenset()) | needed
    return waits


def _rank(change: Change) -> tuple[int, Ref]:
    return (ACTIONS.index(change.action), change.ref)
