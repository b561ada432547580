"""Shares: the cores, memory, drives and adapters that go with each GPU of a host.

Everything of a card lies on the card's own NUMA node, and the host keeps something of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product, takewhile
from typing import TypeVar

from reconciler.model.host.evidence import NodeFacts
from reconciler.model.host.topology import Card, Drive, Nic, NumaNode, Topology
from reconciler.model.records import dataclass

CORES_KEPT = 2
"""For the host, on each NUMA node: the first ones, where most interrupts arrive."""
MEMORY_KEPT_GIB, MEMORY_KEPT_PERCENT = 8, 5
"""For the host: the larger of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one card of a NUMA node may have of it."""

    cores: tuple[str, ...]
    memory_gib: int
    drive: Drive | None
    nic: Nic | None


def shares_of(facts: NodeFacts, topology: Topology) -> Mapping[str, Share]:
    """By PCI address of the GPU: whole cores, memory and devices of its own NUMA node."""
    nodes = topology.numa_nodes or ()
    kept = -(-kept_memory(facts) // max(1, sum(node.memory_mib > 0 for node in nodes)))
    shares = {}
    for node in nodes:
        cards = _cards_of(node, topology)
        cores = node.cores[len(kept_cores(node, topology)) :]
        each = len(cores) // max(1, len(cards))
        drives = _nearest(cards, _free_drives(node, topology))
        nics = _nearest(cards, _free_nics(node, topology))
        for at, card in enumerate(cards):
            shares[card.pci_address] = Share(
                cores=cores[at * each : (at + 1) * each],
                memory_gib=max(0, node.memory_mib // 1024 - kept) // len(cards),
                drive=drives.get(card.pci_address),
                nic=nics.get(card.pci_address),
            )
    return shares


def scarcities(topology: Topology) -> list[str]:
    """Devices that are there, but not one for each card of their NUMA node."""
    notes = []
    for node in topology.numa_nodes or ():
        cards = len(_cards_of(node, topology))
        free = {
            "drives": len(_free_drives(node, topology)),
            "RDMA adapters": len(_free_nics(node, topology)),
        }
        notes += [
            f"NUMA node {node.number}: {cards} cards, free {what}: {count}; none is given out"
            for what, count in free.items()
            if 0 < count < cards
        ]
    return notes


def kept_cores(node: NumaNode, topology: Topology) -> tuple[str, ...]:
    """On a small machine, only as many as leave one to each card."""
    spare = len(node.cores) - len(_cards_of(node, topology))
    return node.cores[: max(0, min(CORES_KEPT, spare))]


def kept_memory(facts: NodeFacts) -> int:
    share = -(-(facts.memory_mib or 0) * MEMORY_KEPT_PERCENT // (100 * 1024))
    return max(MEMORY_KEPT_GIB, share)


def _cards_of(node: NumaNode, topology: Topology) -> list[Card]:
    """The GPUs, dead ones included: after a repair they find their share untouched."""
    return [card for card in topology.cards or () if card.numa == node.number]


def _free_drives(node: NumaNode, topology: Topology) -> list[Drive]:
    drives = topology.drives or ()
    return [d for d in drives if d.numa == node.number and not d.holds and d.size_gib]


def _free_nics(node: NumaNode, topology: Topology) -> list[Nic]:
    """Adapters for RDMA: others are how the host itself is reached."""
    nics = topology.nics or ()
    return [nic for nic in nics if nic.numa == node.number and nic.rdma and not nic.holds]


Device = TypeVar("Device", Drive, Nic)


def _nearest(cards: Sequence[Card], devices: Sequence[Device]) -> dict[str, Device]:
    """A device for each card, the nearest pairs first; none for anybody if they are too few."""
    if len(devices) < len(cards):
        return {}

    def far(pair: tuple[Card, Device]) -> tuple[int, str, str]:
        card, device = pair
        same = zip(card.pci_path, device.pci_path, strict=False)
        shared = sum(1 for _ in takewhile(lambda ends: ends[0] == ends[1], same))
        return -shared, card.pci_address, device.pci_address

    found: dict[str, Device] = {}
    taken: set[str] = set()
    for card, device in sorted(product(cards, devices), key=far):
        if card.pci_address not in found and device.pci_address not in taken:
            found[card.pci_address] = device
            taken.add(device.pci_address)
    return found
