"""Consent: a plan that somebody agreed to, and what would be done of it later."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import RISKS, Action, Change, Plan, Step
from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.state.world import World
from reconciler.operations.apply.handlers import is_slow, readies


def is_agreed(change: Change, shown: Change | None, begun: Collection[Ref]) -> bool:
    """Whether a change is the one agreed to, in whatever place, or the end of what has begun."""
    if shown is None or change.digest != shown.digest:
        return False
    if change.action is Action.RELEASE and _released(change) != _released(shown):
        return False
    if change.ref in begun:
        return RISKS.index(change.risk) <= RISKS.index(shown.risk)
    return _nature(change) == _nature(shown)


def _nature(change: Change) -> tuple[object, ...]:
    return (change.action, change.risk, change.former, change.fields, change.basis)


def _released(change: Change) -> tuple[object, ...]:
    """Whose release it is, and whether it can be taken back."""
    return (change.allocation_id, change.undo_minutes > 0)


def stands(change: Change, nodes: Iterable[str], world: World) -> bool:
    """Whether the state has it as it was to be, and nobody who could tell otherwise is silent.

    `nodes` are those that were to be worked on.
    """
    seen = (world.observations.get(node) for node in nodes)
    if any(one is None or one.problem for one in seen):
        return False
    recorded = world.recorded.get(change.ref)
    if change.action in (Action.RELEASE, Action.FORGET):
        if change.undo_minutes and recorded is not None:
            return recorded.phase is not Phase.ACTIVE
        return recorded is None and all(claim.ref != change.ref for claim in world.claims)
    if recorded is None or recorded.digest != change.digest:
        return False
    return not change.basis or recorded.basis != ""


def may_end_turn(plan: Plan, outcomes: Collection[StepOutcome], ahead: Sequence[Step]) -> bool:
    """Whether the rest, which is `ahead`, may be planned anew after others.

    Nobody is kept waiting for builds. And nothing that people feel is done again: a host that was
    prepared in vain is not followed by the next one, nor a restart by another.
    """
    if all(map(is_slow, ahead)) or any(readies(o.step) and not o.ok for o in outcomes):
        return False
    begun = {outcome.step.ref for outcome in outcomes}
    restarted = {c.ref for c in plan.active if c.action is Action.RESTART and c.ref in begun}
    return not any(step.ref in restarted for step in ahead)


def changed_meanwhile(ref: Ref, now: Change | None) -> Problem:
    """Why a change is left out: by what refuses it now, if anything does."""
    if now is not None and now.problem is not None:
        return now.problem
    return Problem(
        code="changed_meanwhile",
        message=f"{ref}: another run had its turn, and now something else would be done",
        hint="look at what is to be done now: gpuaas plan",
        ref=str(ref),
    )
