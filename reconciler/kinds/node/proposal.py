"""The proposal of a Node, from what its host reports: slots to be read, changed and approved.

A proposal gives out nothing (INV-08, INV-14). A card that no slot can be made of gets none, and a
note says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.kinds.node.shares import Share, kept_cores, kept_memory, scarcities, shares_of
from reconciler.kinds.node.spec import CONTROL_LOGIN, Ssh
from reconciler.kinds.node_family import NODE_FAMILIES, NodeFamilySpec
from reconciler.model.host.cpus import format_cpus, parse_cpus
from reconciler.model.host.evidence import GpuFact, NodeFacts
from reconciler.model.host.topology import Card, Topology
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired

MAX_SLOTS, MAX_KEYS, MAX_TEXT = 16, 6, 256
KEY_TYPES = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp")
NO_MIG = ("Disabled", "N/A")
TOLD = frozenset(
    {
        *("answer", "machineId", "hostKeys", "serial", "memory", "numaNodes"),
        *("gpus", "cards", "numa", "drives", "adapters"),
    }
)
"""The probes that a proposal is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """What the operator says: how the host is reached, by which keys they know it, its family.

    Without a family, the one of the host's cards is looked for.
    """

    address: str
    host_keys: tuple[str, ...]
    family: str = ""
    port: int = 22
    user: str = CONTROL_LOGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """`spec` is that of a Node. It lacks what the host did not tell, and `notes` say so."""

    spec: Mapping[str, Any]
    notes: tuple[str, ...]


def propose(facts: NodeFacts, wish: NodeAddress, desired: Desired) -> Proposal:
    """The spec of a Node with isolation `account`, one slot for each card that can be one."""
    topology = facts.topology or Topology()
    cards = topology.cards or ()
    gpus = {gpu.pci_address: gpu for gpu in facts.gpus or ()}
    families = {family.ref.name: family.spec for family in NODE_FAMILIES.of(desired)}
    name = wish.family or _family_of(gpus.values(), families)
    shares = shares_of(facts, topology)
    slots: list[Mapping[str, object]] = []
    notes = [*_problems(facts, topology), *_about_family(facts, name, families.get(name))]
    for at, card in enumerate(cards):
        gpu, share = gpus.get(card.pci_address), shares.get(card.pci_address)
        why = _unfit(card, gpu, share, families.get(name))
        if at >= MAX_SLOTS:
            why = f"a node has {MAX_SLOTS} slots at most"
        if why or gpu is None or share is None:
            notes.append(f"s{at}, {card.pci_address}: {why}")
        else:
            slots.append(_slot(f"s{at}", card, gpu, share))
    notes += _strays(gpus, cards) + scarcities(topology)
    spec = {
        "address": wish.address,
        **_ssh(wish, desired.settings.ssh.user or CONTROL_LOGIN),
        "identity": _identity(facts, topology, wish),
        **({"family": name} if name else {}),
        "isolation": "account",
        "reserve": _reserve(facts, topology),
        "slots": slots,
    }
    return Proposal(spec=spec, notes=tuple(notes))


# The host.


def _ssh(wish: NodeAddress, usual: str) -> Mapping[str, object]:
    """Only what is not as everywhere in this fleet."""
    ssh = {
        **({"port": wish.port} if wish.port != Ssh().port else {}),
        **({"user": wish.user} if wish.user != usual else {}),
    }
    return {"ssh": ssh} if ssh else {}


def _identity(facts: NodeFacts, topology: Topology, wish: NodeAddress) -> Mapping[str, object]:
    """The keys that the operator knows, and with them the others that the same host has."""
    told = topology.host_keys or ()
    others = told if set(wish.host_keys) <= set(told) else ()
    keys = [key for key in dict.fromkeys((*wish.host_keys, *others)) if key.startswith(KEY_TYPES)]
    return {
        "machineId": facts.machine_id,
        "hostKeys": sorted(keys[:MAX_KEYS]),
        **({"serial": topology.serial} if topology.serial else {}),
    }


def _reserve(facts: NodeFacts, topology: Topology) -> Mapping[str, object]:
    kept = [core for node in topology.numa_nodes or () for core in kept_cores(node, topology)]
    cpus = {"cpus": _cpus(kept)} if kept else {}
    return {**cpus, "memoryGiB": kept_memory(facts)}


def _family_of(gpus: Iterable[GpuFact], families: Mapping[str, NodeFamilySpec]) -> str:
    """The one family of most of these cards; empty if there is none or more than one."""
    common = Counter((gpu.model, gpu.memory_mib) for gpu in gpus).most_common(1)
    fitting = [
        name for name, family in families.items() if common and family.gpu.fits(*common[0][0])
    ]
    return fitting[0] if len(fitting) == 1 else ""


# The slots.


def _unfit(
    card: Card, gpu: GpuFact | None, share: Share | None, family: NodeFamilySpec | None
) -> str:
    """Why no slot can be made of a card; empty if one can."""
    if gpu is None:
        return "on the bus, but its driver does not answer for it"
    if card.mig not in NO_MIG:
        return f"MIG is {card.mig.lower()}, switch it off" if card.mig else "MIG mode unknown"
    if card.numa is None or share is None:
        return "its NUMA node is unknown"
    if gpu.memory_mib is None:
        return "its memory is unknown"
    if family and not family.gpu.fits(gpu.model, gpu.memory_mib):
        return f"{gpu.model}, {gpu.memory_mib} MiB is not the card of the family"
    if not share.cores or not share.memory_gib:
        return f"NUMA node {card.numa} has no {'memory' if share.cores else 'cores'} left for it"
    return "" if len(_cpus(share.cores)) <= MAX_TEXT else "its cores are too scattered to be named"


def _slot(name: str, card: Card, gpu: GpuFact, share: Share) -> Mapping[str, object]:
    serial = {"serial": card.serial} if card.serial not in (None, "N/A", "0") else {}
    slot: dict[str, Any] = {
        "name": name,
        "gpu": {
            "uuid": gpu.uuid,
            "pciAddress": gpu.pci_address,
            "model": gpu.model,
            "memoryMiB": gpu.memory_mib,
            **serial,
        },
        "numa": card.numa,
        "cpus": _cpus(share.cores),
        "memoryGiB": share.memory_gib,
    }
    if share.drive:
        slot["nvme"] = {"id": share.drive.id, "sizeGiB": share.drive.size_gib}
    if share.nic:
        nic = share.nic
        slot["nic"] = {"pciAddress": nic.pci_address, "name": nic.name, "rdma": True}
    return slot


def _cpus(cores: Iterable[str]) -> str:
    return format_cpus(cpu for core in cores for cpu in parse_cpus(core))


# The notes.


def _problems(facts: NodeFacts, topology: Topology) -> Iterator[str]:
    yield from (f"{p.probe}: {p.message}" for p in facts.problems if p.probe in TOLD)
    if not facts.machine_id:
        yield "machineId: unknown, and nothing else tells this host from a copy"
    if topology.cards == ():
        yield "cards: none on the bus"


def _about_family(facts: NodeFacts, name: str, family: NodeFamilySpec | None) -> Iterator[str]:
    """What the base software would have to be (INV-17); gpuaas installs none of it."""
    cards = sorted({f"{gpu.model}, {gpu.memory_mib} MiB" for gpu in facts.gpus or ()})
    if family is None and cards:
        what = f"{name} is not there" if name else "not one fits"
        yield f"family: {what}; the cards are {'; '.join(cards)}"
    if family is None:
        return
    if facts.os not in family.base.os:
        yield f"os: {facts.os or 'unknown'}, family {name} has {', '.join(family.base.os)}"
    branches = family.base.driver_branches
    drivers = sorted({gpu.driver or "unknown" for gpu in facts.gpus or ()})
    for driver in drivers:
        if driver.split(".")[0] not in branches:
            yield f"driver: {driver}, family {name} has {', '.join(branches)}"


def _strays(gpus: Iterable[str], cards: Iterable[Card]) -> list[str]:
    missing = sorted(set(gpus) - {card.pci_address for card in cards})
    return [f"{address}: a card that is not on the bus" for address in missing]
