"""Held work: work that no document asks for and that still needs approval.

A suspension of the loop keeps it from mending what somebody is at work on by hand, and from all
that follows from nothing but time. What only a new version of the program makes otherwise goes as
the Policy says. What says who may log in is put right all the same (rule 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.model.plan.drift import Becomes, DriftClass
from reconciler.model.plan.plan import Action, Cause, Risk
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.planner.automation.hold import by_policy, paused
from reconciler.planner.changes.stale import Stale
from reconciler.planner.context import Situation
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.refusal import Refusal, problem_of
from reconciler.planner.core.task import Task

Held = tuple[Difference, Problem, Cause | None]
"""What is held, why, and what it follows from."""


def hold_stale(
    stale: Mapping[Ref, Stale], situation: Situation
) -> tuple[Mapping[Ref, Stale], list[Held]]:
    """Stale allocations that need no approval, and those that do; other changes are not held
    here.
    """
    if not situation.unattended:
        return stale, []
    left, held = dict(stale), []
    for ref, one in stale.items():
        if ref not in situation.refs and (why := _why_stale(one, situation)) is not None:
            held.append((_difference(one), problem_of(one.resource, why), _cause(one)))
            del left[ref]
    return left, held


def hold_task(task: Task, situation: Situation) -> tuple[Task | None, Held | None]:
    """The task without its steps on hosts that the loop leaves alone; and why, if none is left."""
    if not situation.paused:
        return task, None
    refused = [paused(task.ref, step.node, situation) for step in task.steps]
    left = tuple(s for s, why in zip(task.steps, refused, strict=True) if why is None)
    if left:
        return replace(task, steps=left), None
    (why, *_) = (one for one in refused if one is not None)
    problem = problem_of(task.difference, why)
    return None, (task.difference, problem, None)


def _why_stale(one: Stale, situation: Situation) -> Refusal | None:
    """Only for what follows from no change that anybody made."""
    if not (one.only_drifted or one.rerendered) or _lets_in(one):
        return None
    ref = one.resource.ref
    why = paused(ref, one.binding.placement.node, situation)
    if why is None and one.rerendered:
        why = by_policy(ref, Risk.SAFE, situation)
    return why


def _lets_in(one: Stale) -> bool:
    """Whether a host shows other people who may log in."""
    mended = (drift for drift in one.drifted if drift.becomes is Becomes.REPAIRED)
    return any(drift.kind is DriftClass.ACCESS for drift in mended)


def _difference(one: Stale) -> Difference:
    return Difference(
        ref=one.resource.ref,
        action=Action.REPAIR if one.only_drifted else Action.CHANGE,
        resource=one.resource,
        recorded=one.binding.recorded,
    )


def _cause(one: Stale) -> Cause | None:
    return Cause.RERENDERED if one.rerendered else None
