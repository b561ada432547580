"""What is written down of a wave before any of its hosts is touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reconciler.model.plan.plan import Action, Order, Plan, Step
from reconciler.model.plan.work import WaveIntent
from reconciler.model.ref import Ref
from reconciler.operations.apply.handlers import JOINS


def intent_of(plan: Plan, steps: Sequence[Step]) -> WaveIntent:
    """Of these steps of a plan, and of nothing else of it."""
    claiming = {step.ref for step in steps if step.order is not Order.RETIRE}
    return WaveIntent(
        steps=tuple(steps),
        claims=tuple(claim for claim in plan.claims if claim.ref in claiming),
        releasing=tuple(sorted(_leaving(plan, steps))),
        joining=JOINS(plan, steps),
    )


def _leaving(plan: Plan, steps: Iterable[Step]) -> set[Ref]:
    """Refs of which an allocation is given up: only a release or replace ends claims.

    One that is held or blocked ends none, though its keys may be taken away already; and one that
    can be taken back keeps its own.
    """
    ending = {
        c.ref
        for c in plan.active
        if c.action in (Action.RELEASE, Action.REPLACE) and not c.undo_minutes
    }
    return {s.ref for s in steps if s.order is Order.RETIRE and s.ref in ending}
