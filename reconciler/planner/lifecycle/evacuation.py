"""Evacuation: allocations that move because their node is to be empty; each needs consent.

Each is given a new place before it leaves the old one, and waits where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.kinds.node.spec import NODES, AdminState
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, FieldChange
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.planner.core.difference import Difference

STAYING = frozenset({Action.CHANGE, Action.RESTART})
"""What else would become of one: it moves as it is to be by then."""


def with_evacuations(
    differences: tuple[Difference, ...], desired: Desired, world: World
) -> tuple[Difference, ...]:
    """The differences, and a replace for each allocation on a node that is evacuated."""
    leaving = {
        node.ref.name
        for node in NODES.of(desired)
        if node.spec.admin.state is AdminState.EVACUATING
    }
    if not leaving:
        return differences
    moving = {one.ref: one for one in _moving(differences, desired, world, leaving)}
    others = (one for one in differences if one.ref not in moving)
    return tuple(sorted((*others, *moving.values()), key=lambda one: one.ref))


def _moving(
    differences: tuple[Difference, ...], desired: Desired, world: World, leaving: set[str]
) -> Iterator[Difference]:
    known = {one.ref: one for one in differences}
    for ref, recorded in world.recorded.items():
        resource, other = desired.resources.get(ref), known.get(ref)
        if recorded.node not in leaving or recorded.phase is not Phase.ACTIVE or not recorded.id:
            continue
        if resource is None or (other is not None and other.action not in STAYING):
            continue
        moves = FieldChange(path="node", before=recorded.node, rule="replace")
        yield Difference(
            ref=ref,
            action=Action.REPLACE,
            resource=resource,
            recorded=recorded,
            fields=(*(other.fields if other else ()), moves),
            problem=other.problem if other else None,
        )
