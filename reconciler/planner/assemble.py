"""The assembly of a plan: its lines sorted, its steps in waves, and what is told beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from reconciler.model.moment import format_moment
from reconciler.model.plan.drift import Drift
from reconciler.model.plan.plan import Action, Change, Plan, Step, fingerprint
from reconciler.model.ref import Ref
from reconciler.planner.access.revocations import name_revoked, tell_ends
from reconciler.planner.access.suspensions import in_force as suspensions_in_force
from reconciler.planner.automation.guards import next_of_the_day
from reconciler.planner.automation.rules import next_turn_of
from reconciler.planner.automation.tickets import with_tickets
from reconciler.planner.bundles.install import is_slow
from reconciler.planner.changes.build import Line
from reconciler.planner.changes.change_set import Desk
from reconciler.planner.changes.next_moment import next_moment
from reconciler.planner.changes.pending import MOVING
from reconciler.planner.changes.summary import figures_of
from reconciler.planner.changes.waves import after_preparing, in_waves
from reconciler.planner.diff.moves import moved
from reconciler.planner.diff.unsound import tell_errors
from reconciler.planner.drift.notes import notes_of
from reconciler.planner.lifecycle.expiry import horizon
from reconciler.planner.lifecycle.lease import ends_of_waits
from reconciler.planner.policy import policy_of
from reconciler.planner.request import PlanRequest
from reconciler.planner.storage.attachment_rules import (
    after_detaching,
    attachments_of,
    begun_by,
)
from reconciler.planner.storage.attachments import Ledger


def assemble(request: PlanRequest, desk: Desk, ledger: Ledger, found: Sequence[Line]) -> Plan:
    """The plan of these lines."""
    lines = [line for line in found if not line.confirms]
    confirmed = [line.change for line in found if line.confirms]
    former = {c.ref: c.former for c in (line.change for line in lines) if c.former is not None}
    steps = name_revoked([step for line in lines for step in line.steps], desk.context, former)
    ending = {step.ref: step for step in steps if step.revokes}
    told = (
        tell_errors(tell_ends(line.change, ending, request.world), request.desired)
        for line in lines
    )
    changes = tuple(sorted(with_tickets(told, desk.tickets), key=_rank))
    told_of = {change.ref for change in changes}
    places = {} if request.only else dict(moved(request.desired, request.world, told_of))
    claims = tuple(sorted((c for line in lines for c in line.claims), key=lambda c: c.id))
    desired, world = desk.context.desired, request.world
    figures = figures_of(desired, world, request.now, changes, claims)
    touched = sum(change.ref in request.desired.resources for change in changes)
    turned = {c.ref for c in changes if c.action in (Action.RELEASE, Action.RESTORE)}
    ahead = horizon(world, policy_of(desired, world).lease, request.now)
    attachments = attachments_of(steps, world)
    made = Plan(
        revision=request.desired.revision,
        desired_digest=request.desired.digest,
        state_id=world.state_id,
        serial=world.serial,
        made_at=format_moment(request.now),
        changes=changes,
        confirmed=tuple(sorted(confirmed, key=_rank)),
        moved=places,
        claims=claims,
        volumes=begun_by(attachments, ledger),
        attachments=attachments,
        waves=in_waves(steps, _after(lines, steps), last=is_slow),
        waiting=tuple(desk.positions),
        problems=request.desired.problems,
        notes=tuple(notes_of(*_untold(desk.drifts, changes))),
        figures=replace(figures, unchanged=len(request.desired.resources) - touched),
        ends=tuple(end for end in ahead.ends if end.ref not in turned),
        suspended=tuple(suspensions_in_force(world.suspensions, request.now)),
        only=request.only,
        uncommitted=request.uncommitted,
        forced=request.forced,
        next_moment=next_moment(
            desired,
            world,
            request.now,
            (*ahead.moments, *ends_of_waits(request.desired, world), *_turns(request)),
        ),
        written_by=world.written_by,
    )
    return replace(made, fingerprint=fingerprint(made))


def _turns(request: PlanRequest) -> Iterator[datetime]:
    """When a guard or the Policy lets another part of this go alone."""
    alone = request.unattended or request.hold_above is not None
    freed = next_of_the_day(request.world, request.now) if alone else None
    yield from () if freed is None else (freed,)
    if request.unattended:
        policy = policy_of(request.desired, request.world)
        turn = next_turn_of(policy.automation, request.now)
        yield from () if turn is None else (turn,)


def _untold(
    found: Iterable[Drift], changes: Iterable[Change]
) -> tuple[Iterable[Drift], Collection[Ref]]:
    """What is left to tell of, and the refs of which the plan puts right what it can.

    Of what leaves nothing is told beside its line.
    """
    active = {change.ref: change for change in changes if change.problem is None}
    leaving = {ref for ref, change in active.items() if change.action in MOVING}
    return (one for one in found if one.ref not in leaving), active.keys()


def _after(lines: Sequence[Line], steps: Sequence[Step]) -> Mapping[str, frozenset[str]]:
    """What each step waits for: for its line's sake, and for its host's."""
    waits = dict(after_preparing(steps))
    for after in (after_detaching(steps), *(line.after for line in lines)):
        for step, needed in after.items():
            waits[step] = waits.get(step, frozenset()) | needed
    return waits


def _rank(change: Change) -> tuple[int, Ref]:
    return (ACTIONS.index(change.action), change.ref)


ACTIONS = tuple(Action)
