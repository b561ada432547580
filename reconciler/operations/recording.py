"""Recording: a resource as it is once its change is done."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.kinds.allocation_restart import RESTART
from reconciler.model.lifecycle import Phase
from reconciler.model.plan import Action, Change, Order, Step
from reconciler.model.world import Recorded


def recorded_as(
    change: Change, before: Recorded | None, steps: Iterable[Step], at: str
) -> Recorded:
    """What is written down of `change` at `at`; what it does not speak of stays as it was before.

    `steps` are those of the change. What a replace takes away is no fact of what it has made.
    """
    stays = before is not None and before.id in ("", change.allocation_id)
    facts = dict(before.facts) if before and stays else {}
    for step in steps:
        gone = change.action is Action.REPLACE and step.order is Order.RETIRE
        # What a restart has come to is no file of the platform: its mark is the host's own.
        if not gone and step.verb != RESTART:
            facts.update(step.expected)
    place = change.placement
    return Recorded(
        ref=change.ref,
        normal=change.normal or (before.normal if before else {}),
        digest=change.digest or (before.digest if before else ""),
        file=change.file,
        commit=change.origin.commit,
        applied_at=at,
        phase=Phase.ACTIVE,
        protect=change.protect,
        id=change.allocation_id or (before.id if before else ""),
        login=change.login or (before.login if before else ""),
        node=place.node if place else before.node if before else "",
        slots=place.slots if place else before.slots if before else (),
        shape=place.shape if place else before.shape if before else None,
        basis=change.basis or (before.basis if before else ""),
        facts=facts,
    )
