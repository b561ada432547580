"""Agreeing: a plan that somebody said yes to, and what would be done of it some time later."""

from __future__ import annotations

from collections.abc import Collection

from reconciler.model.lifecycle import Phase
from reconciler.model.plan import RISKS, Action, Change
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.world import World


def is_agreed(change: Change, shown: Change | None, begun: Collection[Ref]) -> bool:
    """Nothing but the same, be it in another place; or the end of what has begun."""
    if shown is None or change.digest != shown.digest:
        return False
    if change.ref in begun:
        return RISKS.index(change.risk) <= RISKS.index(shown.risk)
    same = (change.action, change.risk, change.former, change.fields, change.basis)
    return same == (shown.action, shown.risk, shown.former, shown.fields, shown.basis)


def stands(change: Change, world: World) -> bool:
    """Whether the state has it as it was to be: there and made from this, or not there."""
    recorded = world.recorded.get(change.ref)
    if change.action in (Action.RELEASE, Action.FORGET):
        return recorded is None or (change.undo_minutes > 0 and recorded.phase is not Phase.ACTIVE)
    return recorded is not None and recorded.digest == change.digest


def changed_meanwhile(ref: Ref, now: Change | None) -> Problem:
    if now is not None and now.problem is not None:
        return now.problem
    return Problem(
        code="changed_meanwhile",
        message=f"{ref}: another run had its turn, and now something else would be done",
        hint="look at what is to be done now: gpuaas plan",
        ref=str(ref),
    )
