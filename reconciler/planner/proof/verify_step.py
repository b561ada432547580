"""Verification of a step: its outcome, by the facts read back.

A receipt is a host's own word. It can show that something went wrong, never that it went well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reconciler.model.host.evidence import Observation
from reconciler.model.host.facts.named_fact import is_unknown
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import Receipt, StepOutcome
from reconciler.model.problem import Problem
from reconciler.planner.core.facts import differing, listed, told


def judge(step: Step, receipt: Receipt | None, observation: Observation | None) -> StepOutcome:
    """A step is done only if the host says so and then shows exactly what was expected."""
    if receipt is None:
        silence = _problem(step, "receipt_missing", "the host said nothing about it")
        return StepOutcome(step=step, ok=False, changed=False, unknown=True, problem=silence)
    said = _told(step, receipt)
    problem = said or _seen(step, observation)
    unseen = said is None and (observation is None or observation.facts is None)
    unknown = receipt.unknown or unseen or (problem is not None and problem.code in UNKNOWN_CODES)
    return StepOutcome(
        step=step,
        ok=problem is None,
        changed=receipt.changed,
        unknown=unknown,
        problem=problem,
        log="\n".join(filter(None, (receipt.log, *_remarks(receipt)))),
    )


UNKNOWN_CODES = frozenset({"receipt_missing", "observation_failed", "host_unreachable"})
"""After these nobody can say what the host has done."""


def _remarks(receipt: Receipt) -> Iterator[str]:
    """What somebody will want to read of it later, though all went well."""
    for word in REMARKS:
        if word in receipt.evidence:
            yield f"{word}: {receipt.evidence[word]}"


REMARKS = ("removed",)
"""What was not ours, and stood where only ours may stand."""


def _told(step: Step, receipt: Receipt) -> Problem | None:
    if receipt.problem is not None:
        return receipt.problem
    return None if receipt.ok else _problem(step, "verb_failed", "the host could not do it")


def _seen(step: Step, observation: Observation | None) -> Problem | None:
    if observation is None or observation.facts is None:
        code = (observation.problem if observation else "") or "observation_failed"
        said = (observation.message if observation else "") or "no answer"
        unseen = f"{step.node}: not seen afterwards: {said}"
        return replace(_problem(step, code, ""), message=unseen)
    found = list(differing(observation.facts, step.expected))
    if unknown := [f"{key} is {seen}" for key, seen, _ in found if is_unknown(seen)]:
        return _problem(step, "observation_failed", listed(unknown, "; "))
    apart = [(key, *told(seen, fact)) for key, seen, fact in found]
    wrong = [f"{key} is {seen}, not {fact}" for key, seen, fact in apart]
    return _problem(step, "evidence_mismatch", listed(wrong, "; ")) if wrong else None


def _problem(step: Step, code: str, message: str) -> Problem:
    return Problem(
        code=code,
        message=f"{step.verb} of {step.ref} on {step.node}: {message}",
        hint=f"gpuaas show {step.ref}",
        ref=str(step.ref),
    )
