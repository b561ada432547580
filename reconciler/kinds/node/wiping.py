"""Wiping: the method that cleans each kind of device for the next tenant.

A device without one is refused where it is written down: nobody could ever prove it clean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType

from reconciler.kinds.checks.findings import finding
from reconciler.kinds.checks.overlaps import at_slot
from reconciler.kinds.node.spec import NodeSpec, Slot
from reconciler.model.problem import Problem
from reconciler.model.spec.resource import Resource

METHODS: Mapping[str, str] = MappingProxyType(
    {
        "gpu": "nobody computes on it, and its driver has taken its memory back",
        "nvme": "opened to no tenant, mounted nowhere and part of nothing",
        "nic": "keeps nothing of what has passed through it",
    }
)
"""What the proof of a release then shows, but for a network card, of which nothing is left."""

NO_DEVICES = frozenset({"name", "numa", "cpus", "memory_gib", "vm", "disabled"})
DEVICES = tuple(field.name for field in fields(Slot) if field.name not in NO_DEVICES)


def check_wiping(resource: Resource[NodeSpec]) -> Iterator[Problem]:
    spec: NodeSpec = resource.spec
    for slot in spec.slots:
        for device in DEVICES:
            if getattr(slot, device) is not None and not METHODS.get(device):
                message = f"slot {slot.name} has a device that nothing here can wipe: {device}"
                hint = "take it out of the slot: after its first tenant it would stay blocked"
                path = at_slot(slot, device)
                yield finding(resource, path, "device_without_wipe", message, hint)
