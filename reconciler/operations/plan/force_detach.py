"""A forced detach: a storage is taken from an allocation that uses it, by an operator.

The word is part of the plan, which shows what it interrupts, and of the run, which keeps why.
"""

from __future__ import annotations

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.model.plan.plan import Plan
from reconciler.model.plan.verb import Verb
from reconciler.model.problem import Problem, ProblemError
from reconciler.operations.fleet import Fleet
from reconciler.operations.person import operator
from reconciler.operations.specs import read_desired


def insist_on_forced(fleet: Fleet, plan: Plan) -> None:
    """Check that the forced detaches of a plan are allowed and needed.

    Raises ProblemError `person_unknown` or `operator_only`, and `force_unmatched` for each
    allocation from which the plan detaches nothing.
    """
    if not plan.forced.refs:
        return
    operator(fleet, read_desired(fleet), "ends what somebody runs in a storage")
    known = {step.ref for step in plan.steps if step.verb == Verb.DETACH}
    known.update(change.ref for change in plan.changes if change.problem is not None)
    theirs = list(ALLOCATIONS.among(known))
    named = {str(ref) for ref in theirs} | {f"{ref.project}/{ref.name}" for ref in theirs}
    if unmatched := [text for text in plan.forced.refs if text not in named]:
        raise ProblemError(tuple(map(_unmatched, unmatched)))


def _unmatched(text: str) -> Problem:
    return Problem(
        code="force_unmatched",
        message=f"nothing is detached from {text} by this plan",
        hint="take it out of its spec.storage first; what is attached: gpuaas storage list",
        ref=text,
    )
