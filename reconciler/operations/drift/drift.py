"""`drift`: where hosts differ from what was applied. Nothing here can write anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.kinds.node.spec import NODES
from reconciler.model.plan.drift import Drift
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.observe import observe_nodes
from reconciler.operations.references import insist_on_ref, ref_of
from reconciler.operations.specs import read_desired
from reconciler.planner.changes.summary import silence_of
from reconciler.planner.drift.detect import drifts
from reconciler.store.snapshot import read_world


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifting:
    """The drift that was found, by ref.

    `silent` says of each node without an answer what is known of it: nobody can say whether there
    is drift.
    """

    found: tuple[Drift, ...]
    silent: Mapping[str, str]


def find_drift(fleet: Fleet, ref_text: str = "", *, ask: bool = False) -> Drifting:
    """The drift by the last answers of hosts; with `ask`, by present answers, which are not kept.

    It is that of one resource, or of everything; the drift of a node is all that is on it.
    """
    ref = ref_of(ref_text) if ref_text else None
    with without_collector():
        desired = read_desired(fleet)
        with fleet.reading() as database:
            world = read_world(database)
            if ref is not None:
                insist_on_ref(fleet, database, world, ref)
        if ask:
            world = _asked(fleet, desired, world)
        found = drifts(desired, world, fleet.now())
    silent = silence_of(desired, world)
    if ref is None:
        return Drifting(found=found, silent=silent)
    node = world.node_of(ref)
    return Drifting(
        found=tuple(one for one in found if one.ref == ref or _lies_on(one, ref)),
        silent={name: said for name, said in silent.items() if name == node},
    )


def _lies_on(one: Drift, ref: Ref) -> bool:
    return ref.kind == "node" and one.node == ref.name


def _asked(fleet: Fleet, desired: Desired, world: World) -> World:
    names = (node.ref.name for node in NODES.of(desired))
    seen = {one.node: one for one in observe_nodes(fleet, desired, world, names)}
    return replace(world, observations={**world.observations, **seen})
