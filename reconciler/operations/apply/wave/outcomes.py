"""Outcomes of steps that were not simply done: not asked, spared, put back, or not kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from reconciler.model.host.evidence import Observation
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem
from reconciler.operations.apply.handlers import readies

ROLLED_BACK = "prepare_rolled_back"


def has_harmed(outcome: StepOutcome) -> bool:
    """Whether preparing has changed a host, or may have, and could not be kept.

    A host that was refused as it is holds up nobody.
    """
    return readies(outcome.step) and not outcome.ok and (outcome.changed or outcome.unknown)


def not_tried(step: Step, why: str) -> Problem:
    """The outcome of a step that a failed preparation has ruled out."""
    return Problem(
        code="host_not_prepared",
        message=f"{step.verb} of {step.ref} on {step.node} was not tried: {why}",
        hint="mend what the preparation names, then: gpuaas apply",
        ref=str(step.ref),
    )


def unasked(step: Step, seen: Observation) -> StepOutcome:
    """The outcome of a step whose host was not asked: what the look has said of it."""
    problem = Problem(code=seen.problem, message=f"{step.node}: {seen.message}", ref=str(step.ref))
    return StepOutcome(step=step, ok=False, changed=False, problem=problem)


def spared(step: Step) -> StepOutcome:
    problem = not_tried(step, "preparing another host did it harm")
    return StepOutcome(step=step, ok=False, changed=False, problem=problem)


def put_back(outcome: StepOutcome, settled: Collection[str]) -> StepOutcome:
    """The outcome of a preparation that did not show, unless its host has reported it already."""
    step, problem = outcome.step, outcome.problem
    if not readies(step) or problem is None or step.node not in settled:
        return outcome
    if problem.code in ("prepare_refused", ROLLED_BACK):
        return outcome
    told = f"{problem.message}; what was prepared has been put back"
    return replace(outcome, problem=replace(problem, code=ROLLED_BACK, message=told))


def unkept(outcome: StepOutcome, unsettled: Mapping[str, str]) -> StepOutcome:
    why = unsettled.get(outcome.step.node)
    if not readies(outcome.step) or why is None or not outcome.ok:
        return outcome
    problem = Problem(
        code="host_not_prepared",
        message=f"{outcome.step.node}: what was prepared could not be kept: {why}",
        hint="see that the host answers, then: gpuaas apply",
        ref=str(outcome.step.ref),
    )
    return replace(outcome, ok=False, unknown=True, problem=problem)
