"""Held work: what no document asks for, and that still does not go alone.

A suspension of the loop keeps it from mending what somebody is at work on by hand, and from all
that follows from nothing but time. What only a new version of the program makes otherwise goes as
the Policy says. What says who may log in is put right all the same (rule 9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.model.plan.drift import Becomes, DriftClass
from reconciler.model.plan.plan import Action, Cause, Change, Risk
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.planner.automation.hold import by_policy, paused
from reconciler.planner.bundles.install import Staging
from reconciler.planner.changes.build import Line, refused_change
from reconciler.planner.changes.change_set import Desk
from reconciler.planner.changes.pending import Pending
from reconciler.planner.context import Situation
from reconciler.planner.difference import Difference
from reconciler.planner.risks import Refusal, problem_of
from reconciler.planner.storage.stale_records import Words


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Of what no difference speaks: allocations kept in step, bundles, and words of wiped data."""

    pending: Mapping[Ref, Pending]
    stagings: Mapping[Ref, Staging]
    words: tuple[Words, ...]
    held: tuple[tuple[Difference, Problem, Cause | None], ...] = ()


def hold_work(work: Work, situation: Situation) -> Work:
    """The same without what does not go alone, which it then names."""
    if not situation.unattended:
        return work
    pending, stagings = dict(work.pending), dict(work.stagings)
    held: list[tuple[Difference, Problem, Cause | None]] = []
    changed = {one.ref for one in situation.differences}
    for ref, one in work.pending.items():
        if ref not in changed and (why := _why_pending(one, situation)) is not None:
            held.append((_difference(one), problem_of(ref, one.resource, why), _cause(one)))
            del pending[ref]
    for ref, staging in work.stagings.items():
        left = _elsewhere(staging, situation)
        if left.steps == staging.steps:
            continue
        stagings[ref] = left
        if not left.steps:
            del stagings[ref]
        if not left.steps and ref not in changed:
            held.append(_held_staging(staging, situation))
    words = tuple(one for one in work.words if not _is_paused(one.difference.ref, situation))
    return Work(pending=pending, stagings=stagings, words=words, held=tuple(held))


def held_lines(work: Work, desk: Desk) -> Iterator[Line]:
    for difference, problem, cause in work.held:
        change: Change = refused_change(difference, problem, desk)
        yield Line(change=replace(change, cause=cause))


def _why_pending(one: Pending, situation: Situation) -> Refusal | None:
    """Only of what follows from nothing that anybody has changed."""
    if not (one.only_drifted or one.rerendered) or _lets_in(one):
        return None
    ref = one.resource.ref
    why = paused(ref, one.binding.placement.node, situation)
    if why is None and one.rerendered:
        why = by_policy(ref, Risk.SAFE, situation)
    return why


def _lets_in(one: Pending) -> bool:
    """Whether a host shows otherwise who may log in."""
    mended = (drift for drift in one.drifted if drift.becomes is Becomes.REPAIRED)
    return any(drift.kind is DriftClass.ACCESS for drift in mended)


def _difference(one: Pending) -> Difference:
    return Difference(
        ref=one.resource.ref,
        action=Action.REPAIR if one.only_drifted else Action.CHANGE,
        resource=one.resource,
        recorded=one.binding.recorded,
    )


def _cause(one: Pending) -> Cause | None:
    return Cause.RERENDERED if one.rerendered else None


def _elsewhere(staging: Staging, situation: Situation) -> Staging:
    """What is built on hosts that the loop works on."""
    steps = staging.steps
    if situation.paused:
        steps = tuple(s for s in steps if paused(staging.bundle, s.node, situation) is None)
    return replace(staging, steps=steps)


def _held_staging(
    staging: Staging, situation: Situation
) -> tuple[Difference, Problem, Cause | None]:
    ref, world = staging.bundle, situation.world
    resource = situation.desired.resources.get(ref)
    action = Action.REPAIR if staging.only_repairs else Action.STAGE
    difference = Difference(
        ref=ref, action=action, resource=resource, recorded=world.recorded.get(ref)
    )
    (why, *_) = (
        found for step in staging.steps if (found := paused(ref, step.node, situation)) is not None
    )
    return difference, problem_of(ref, resource, why), None


def _is_paused(node: Ref, situation: Situation) -> bool:
    return paused(node, node.name, situation) is not None
