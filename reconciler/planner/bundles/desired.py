"""The desired set: which bundle versions nodes should have, and which are named there.

A version is wanted on a node by the bundle itself (`stageOn`), or by an allocation that is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.bundle import BUNDLES, BundleSpec, Version, VersionState
from reconciler.kinds.fleet_rules import policy_in
from reconciler.kinds.node.spec import NODES, NodeSpec
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.planner.bundles.compatibility import machine, misfit
from reconciler.planner.core.seat import Seat, Unseated

Place = tuple[str, str]
"""A node and the name of a bundle."""

NOWHERE: Mapping[Ref, Seat | Unseated] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """The wanted versions by place; and by bundle, `version on node: rule` where one cannot run."""

    versions: Mapping[Place, set[str]]
    left_out: Mapping[str, list[str]]


def wanted(
    desired: Desired,
    world: World,
    seats: Mapping[Ref, Seat | Unseated] = NOWHERE,
    leaving: Collection[Ref] = (),
) -> Wants:
    """The versions that are wanted; `seats` are places given just now, `leaving` those given up."""
    wants: dict[Place, set[str]] = defaultdict(set)
    left_out: dict[str, list[str]] = defaultdict(list)
    for bundle in BUNDLES.of(desired):
        name = bundle.ref.name
        for one in bundle.spec.versions:
            for node in _staged_on(one, desired):
                if rule := _rule_against(one, bundle, node, desired, world):
                    left_out[name].append(f"{one.version} on {node.ref.name}: {rule}")
                else:
                    wants[node.ref.name, name].add(one.version)
    for resource in ALLOCATIONS.of(desired):
        if resource.spec.runtimes and (place := _node_of(resource, world, seats, leaving)):
            for runtime in resource.spec.runtimes:
                wants[place, runtime.bundle].add(runtime.version)
    return Wants(versions=wants, left_out=left_out)


def named(world: World) -> Mapping[Place, set[str]]:
    """The versions that descriptors on hosts may name: those of everything recorded, in any
    phase.
    """
    found: dict[Place, set[str]] = defaultdict(set)
    for recorded in ALLOCATIONS.recorded(world):
        if recorded.node:
            for one in ALLOCATIONS.applied(recorded).runtimes:
                found[recorded.node, one.bundle].add(one.version)
    return found


def _staged_on(one: Version, desired: Desired) -> Iterator[Resource]:
    """The nodes that a version is for, whether or not an allocation there names it."""
    wanted = one.stage_on
    if one.state is VersionState.ACTIVE and (wanted.nodes or wanted.families):
        for node in NODES.of(desired):
            if node.ref.name in wanted.nodes or node.spec.family in wanted.families:
                yield node


def _rule_against(
    one: Version,
    bundle: Resource[BundleSpec],
    node: Resource[NodeSpec],
    desired: Desired,
    world: World,
) -> str:
    """The first compatibility rule that objects; of a node never observed nothing is known."""
    seen = world.observations.get(node.ref.name)
    if seen is None or seen.facts is None:
        return ""
    lenient = policy_in(desired).bundles.allow_unknown_compatibility
    need = bundle.spec.needs(bundle.ref.name, may_be_unknown=lenient)[one.version]
    found = misfit(machine(node, desired, seen.facts), need)
    return found.code if found else ""


def _node_of(
    resource: Resource,
    world: World,
    seats: Mapping[Ref, Seat | Unseated],
    leaving: Collection[Ref],
) -> str:
    """The node where an allocation is, or will be; empty where it is nowhere."""
    seat = seats.get(resource.ref)
    if isinstance(seat, Seat):
        return seat.placement.node
    recorded = world.recorded.get(resource.ref)
    if recorded is None or resource.ref in leaving or recorded.phase is not Phase.ACTIVE:
        return ""
    return recorded.node
