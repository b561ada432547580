"""Figures for the head and the foot of a plan: counts over nodes, GPUs and claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from reconciler.model.desired import Desired
from reconciler.model.moment import parse_moment
from reconciler.model.plan import Action, Change, ClaimIntent, FleetFigures
from reconciler.model.world import World


def figures_of(
    desired: Desired,
    world: World,
    now: datetime,
    changes: Iterable[Change],
    claims: Iterable[ClaimIntent],
) -> FleetFigures:
    """`desired` is what will be in force. The age is that of the oldest answer."""
    nodes = {node.ref.name: len(node.spec.slots) for node in desired.of("node")}
    seen = [world.observations.get(name) for name in nodes]
    answers = [one.at for one in seen if one is not None and one.facts and not one.problem]
    ages = [int((now - moment).total_seconds()) for at in answers if (moment := parse_moment(at))]
    held = sum(_gpus(claim.node, claim.slot, nodes) for claim in world.claims)
    taken = sum(_gpus(claim.node, claim.slot, nodes) for claim in claims)
    return FleetFigures(
        nodes=len(nodes),
        answered=len(answers),
        observed_age=max(0, *ages) if ages else None,
        gpus=sum(nodes.values()),
        gpus_held_before=held,
        gpus_held_after=held + taken - _freed(world, changes, nodes),
    )


def _freed(world: World, changes: Iterable[Change], nodes: Mapping[str, int]) -> int:
    """Slots that will be free once every release of the plan is proved."""
    staying = {
        change.ref: "" if change.action is Action.RELEASE else change.allocation_id
        for change in changes
        if change.problem is None and change.action in (Action.RELEASE, Action.REPLACE)
    }
    return sum(
        _gpus(claim.node, claim.slot, nodes)
        for claim in world.claims
        if claim.ref in staying and claim.allocation_id != staying[claim.ref]
    )


def _gpus(node: str, slot: str | None, nodes: Mapping[str, int]) -> int:
    return 1 if slot is not None else nodes.get(node, 1)
