"""The summary of a plan: counts over nodes, GPUs and claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from reconciler.kinds.node.spec import NODES
from reconciler.model.host.evidence import Observation
from reconciler.model.moment import parse_moment
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.plan import Action, Change, FleetFigures
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World


def figures_of(
    desired: Desired,
    world: World,
    now: datetime,
    changes: Iterable[Change],
    claims: Iterable[ClaimIntent],
) -> FleetFigures:
    """The counts of a plan; `desired` is what will be in force. The age is that of the oldest
    answer.
    """
    nodes = {node.ref.name: len(node.spec.slots) for node in NODES.of(desired)}
    seen = [world.observations.get(name) for name in nodes]
    answers = [one.at for one in seen if one and one.facts and not one.problem]
    ages = [int((now - moment).total_seconds()) for at in answers if (moment := parse_moment(at))]
    held = sum(_gpus(claim.node, claim.slot, nodes) for claim in world.claims)
    taken = sum(_gpus(claim.node, claim.slot, nodes) for claim in claims)
    return FleetFigures(
        nodes=len(nodes),
        answered=len(answers),
        silent=silence_of(desired, world),
        observed_age=max(0, *ages) if ages else None,
        gpus=sum(nodes.values()),
        gpus_held_before=held,
        gpus_held_after=held + taken - _freed(world, changes, nodes),
    )


def silence_of(desired: Desired, world: World) -> Mapping[str, str]:
    """What is known of each node without an answer, or in doubt."""
    seen = {node.ref.name: world.observations.get(node.ref.name) for node in NODES.of(desired)}
    silent = {name: one for name, one in seen.items() if not one or not one.facts or one.problem}
    return _with_doubts(_silence(silent, world), world)


def _silence(silent: Mapping[str, Observation | None], world: World) -> Mapping[str, str]:
    """Why nothing is known of a node now, since when, and what stays or waits there."""
    held = {(claim.node, claim.allocation_id) for claim in world.claims} if silent else ()
    holders = Counter(node for node, _ in held)
    told = {}
    for name, seen in sorted(silent.items()):
        said = (seen.message or seen.problem or "no answer") if seen else "never observed"
        since = f", since {seen.unreachable_since or seen.at}" if seen else ""
        since += f", last answer {seen.last_answer}" if seen and seen.last_answer else ""
        number = holders[name]
        keeps = f"; {number} allocation{'s keep their' if number > 1 else ' keeps its'} claims"
        told[name] = said + since + (keeps if number else "") + _waiting(world, name)
    return told


def _with_doubts(told: Mapping[str, str], world: World) -> Mapping[str, str]:
    """Nodes that answer, and of which something is unknown all the same."""
    found = dict(told)
    for doubt in world.doubts:
        what = f"in doubt since {doubt.since}, {doubt.kind}: {doubt.reason}"
        found[doubt.node] = "; ".join(filter(None, (found.get(doubt.node, ""), what)))
    return dict(sorted(found.items()))


def _waiting(world: World, node: str) -> str:
    """Nodes where access could not be ended yet."""
    people = sorted({who for one in world.revocations if one.node == node for who in one.people})
    if not people:
        return ""
    what = "1 revocation waits" if len(people) == 1 else f"{len(people)} revocations wait"
    return f"; {what} ({', '.join(people)})"


def _freed(world: World, changes: Iterable[Change], nodes: Mapping[str, int]) -> int:
    """Slots that will be free once every release of the plan is proved."""
    staying = {
        change.ref: "" if change.action is Action.RELEASE else change.allocation_id
        for change in changes
        if change.problem is None
        and change.action in (Action.RELEASE, Action.REPLACE)
        and not change.undo_minutes
    }
    return sum(
        _gpus(claim.node, claim.slot, nodes)
        for claim in world.claims
        if claim.ref in staying and claim.allocation_id != staying[claim.ref]
    )


def _gpus(node: str, slot: str | None, nodes: Mapping[str, int]) -> int:
    return 1 if slot is not None else nodes.get(node, 1)
