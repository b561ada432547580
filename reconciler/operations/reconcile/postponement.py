"""Postponement: changes that wait for their next attempt, and what depends on them.

What failed of late waits, and all that a host would have to do which does not answer. What takes
access away waits for nothing but its host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from reconciler.model.plan.plan import Action, Cause, Change, Plan
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.operations.rounds.backoff import Wait
from reconciler.planner.changes.scope import is_first, needs

UPKEEP = frozenset({Action.REPAIR})
GIVEN = frozenset({Cause.EXPIRED, Cause.CONSENTED})


def postponed(
    plan: Plan, waits: Mapping[str, Wait], stale: Problem | None, desired: Desired, world: World
) -> dict[Ref, str]:
    """Active changes that are not done now, each with the code of why.

    While nothing new is to be begun, as `stale` says, all that is not upkeep is among them.
    """
    nodes: dict[Ref, set[str]] = {}
    revoking = {step.ref for step in plan.steps if step.revokes}
    for step in plan.steps:
        nodes.setdefault(step.ref, set()).add(f"node/{step.node}")
    found: dict[Ref, str] = {}
    for change in plan.active:
        ref, name = change.ref, str(change.ref)
        away = nodes.get(ref, set()) & waits.keys()
        if stale and not (_is_upkeep(change) or ref in revoking):
            found[ref] = stale.code
        elif away:
            found[ref] = waits[min(away)].why
        elif name in waits and ref not in revoking:
            found[ref] = waits[name].why
    never = {c.ref for c in plan.active if is_first(c.action, world.recorded.get(c.ref))}
    if never & found.keys():
        rest = [c.ref for c in plan.active if c.ref not in found and c.ref not in revoking]
        _add_in_need(found, rest, desired, never)
    return found


def _add_in_need(
    found: dict[Ref, str], rest: Sequence[Ref], desired: Desired, never: Set[Ref]
) -> None:
    """What a plan of it alone would do as well for its sake, although that has to wait."""
    more = True
    while more:
        more = False
        for ref in rest:
            first = next((one for one in needs(ref, desired, never) if one in found), None)
            if first is not None and ref not in found:
                found[ref], more = found[first], True


def _is_upkeep(change: Change) -> bool:
    """What keeps things as they were applied, and ends that people were told of."""
    return change.action in UPKEEP or change.cause in GIVEN
