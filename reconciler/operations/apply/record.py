"""The record of a resource once its change is done."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Change, Order, Step
from reconciler.model.state.world import Recorded
from reconciler.operations.apply.handlers import handler_of


def recorded_as(
    change: Change, before: Recorded | None, steps: Iterable[Step], at: str
) -> Recorded:
    """The record of `change` at `at`; what the change does not concern stays as it was.

    `steps` are those of the change. What a replace takes away is no fact of what it has made.
    """
    stays = before is not None and before.id in ("", change.allocation_id)
    facts = dict(before.facts) if before and stays else {}
    for step in steps:
        gone = change.action is Action.REPLACE and step.order is Order.RETIRE
        handler = handler_of(step)
        if not gone and not handler.passing:
            facts.update(step.expected)
        for path in handler.lets_go(step):
            facts.pop(path, None)
    place = change.placement
    quarantined = change.undo_minutes > 0
    end = change.expires_at
    return Recorded(
        ref=change.ref,
        normal=change.normal or (before.normal if before else {}),
        digest=change.digest or (before.digest if before else ""),
        file=change.file,
        commit=change.origin.commit,
        applied_at=at,
        phase=Phase.QUARANTINED if quarantined else Phase.ACTIVE,
        protect=change.protect,
        id=change.allocation_id or (before.id if before else ""),
        login=change.login or (before.login if before else ""),
        node=place.node if place else before.node if before else "",
        slots=place.slots if place else before.slots if before else (),
        shape=place.shape if place else before.shape if before else None,
        basis=Phase.QUARANTINED
        if quarantined
        else change.basis or (before.basis if before else ""),
        expires_at=end if end is not None else before.expires_at if before else "",
        undo_until=_undo_until(change, before, at) if quarantined else "",
        facts=facts,
    )


def _undo_until(change: Change, before: Recorded | None, at: str) -> str:
    """Counted once, from when the allocation was first shut off."""
    if before is not None and before.undo_until:
        return before.undo_until
    moment = parse_moment(at)
    return format_moment(moment + timedelta(minutes=change.undo_minutes)) if moment else ""
