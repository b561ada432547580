"""Overlaps that only a host shows: one device under the names of two slots."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.kinds.checks.findings import finding
from reconciler.kinds.checks.overlaps import at_slot
from reconciler.kinds.node.spec import NODES
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.operations.fleet import Fleet
from reconciler.planner.nodes.shared_devices import shared
from reconciler.store.snapshot import read_world

HINT = "a slot shares nothing: gpuaas node discover names each device once"


def shared_devices(fleet: Fleet, desired: Desired, only: Ref | None = None) -> Iterator[Problem]:
    """Shared devices, by what hosts last said of nodes as specs have them; none without a state."""
    if not fleet.database_file.exists():
        return
    with fleet.reading() as database:
        observations = read_world(database).observations
    for node in NODES.of(desired):
        named = sum(1 for slot in node.spec.slots if slot.nvme or slot.nic)
        if only not in (None, node.ref) or named < 2:
            continue
        seen = observations.get(node.ref.name)
        for name, why in shared(node.spec, seen.facts if seen else None).items():
            slot = next(slot for slot in node.spec.slots if slot.name == name)
            yield finding(node, at_slot(slot), "slot_overlap", f"slot {name}: {why}", HINT)
