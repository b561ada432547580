"""Shared devices: what two slots of one node share under two names, as its host reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.kinds.node.spec import NodeSpec, Slot
from reconciler.model.host.evidence import NodeFacts

WORD = "device"


def shared(spec: NodeSpec, facts: NodeFacts | None) -> Mapping[str, str]:
    """Slot → what it shares with which others; a host that does not tell of names is silent."""
    named = facts.platform if facts else None
    if not named or f"{WORD} *" not in named:
        return {}
    holders: dict[str, dict[str, str]] = {}
    for slot in spec.slots:
        for name in _names(slot):
            if device := named.get(f"{WORD} {name}"):
                holders.setdefault(device, {}).setdefault(slot.name, name)
    found: dict[str, str] = {}
    for device, names in sorted(holders.items()):
        for slot_name, name in names.items() if len(names) > 1 else ():
            others = [f"{other} of {at}" for at, other in names.items() if at != slot_name]
            found.setdefault(slot_name, f"{name} is {device}, as is {', '.join(others)}")
    return found


def _names(slot: Slot) -> Iterator[str]:
    if slot.nvme is not None:
        yield slot.nvme.id
    if slot.nic is not None:
        yield slot.nic.pci_address
        if slot.nic.name:
            yield slot.nic.name
