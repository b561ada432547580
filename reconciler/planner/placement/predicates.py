"""Predicates: why a node or a slot cannot serve a request, one function a rule; '' means it can.

What cannot be known is an objection: unknown is not absent, and nothing is placed on a guess.
The order of the rules, and their names, stand in `feasibility`.
"""

from __future__ import annotations

from datetime import timedelta

from reconciler.kinds.node.spec import AdminState
from reconciler.kinds.node_family import near
from reconciler.model.host.capacity import Need, Shape, Sharing
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.moment import format_age
from reconciler.planner.bundles.compatibility import machine_of, objection
from reconciler.planner.core.facts import listed
from reconciler.planner.nodes.gpu_health import fabric_faults, faults_of
from reconciler.planner.placement.inventory import OUT_OF_USE, InventorySlot, Occupancy, Offer
from reconciler.planner.storage.topology import REACH_RULES

MIB_PER_GIB = 1024
FABRIC_SINCE = 3
"""The first version of the probe that asks for the fabric."""


def other_node(offer: Offer, need: Need) -> str:
    return f"pinned to {need.pin}" if need.pin and need.pin != offer.name else ""


def family_mismatch(offer: Offer, need: Need) -> str:
    return "" if offer.spec.family in need.families else f"family {offer.spec.family}"


def isolation_not_offered(offer: Offer, need: Need) -> str:
    return "" if offer.spec.isolation in need.isolation else f"isolation {offer.spec.isolation}"


def shape_not_offered(offer: Offer, need: Need) -> str:
    sold = ", ".join(sorted(offer.spec.shapes))
    return "" if need.shape in offer.spec.shapes else f"sold as {sold}"


def project_suspended(offer: Offer, need: Need) -> str:
    return offer.suspended_projects.get(need.project, "")


def storage_out_of_reach(code: str, offer: Offer, need: Need) -> str:
    """A storage that the request names is out of reach, by one of the topology rules."""
    told = (REACH_RULES[code](offer.name, offer.spec, one) for one in need.storage)
    return next(filter(None, told), "")


def runtime_unfit(code: str, offer: Offer, need: Need) -> str:
    """A bundle version that the request names cannot run here, by one of the compatibility
    rules.
    """
    if not need.runtimes:
        return ""
    on = machine_of(offer.name, offer.spec.family, offer.family, offer.gpus.values())
    return next(filter(None, (objection(code, on, one) for one in need.runtimes)), "")


def node_not_enrolled(offer: Offer) -> str:
    return offer.blocked


def node_not_named(offer: Offer) -> str:
    return offer.unnamed


def not_approved(offer: Offer) -> str:
    return "" if offer.approved else "no approval in force covers the host"


def node_unavailable(offer: Offer) -> str:
    admin = offer.spec.admin
    return admin.reason or admin.state if admin.state in OUT_OF_USE else ""


def node_draining(offer: Offer) -> str:
    admin = offer.spec.admin
    return (
        admin.reason or admin.state
        if admin.state in (AdminState.DRAINING, AdminState.EVACUATING)
        else ""
    )


def suspended(offer: Offer) -> str:
    return offer.suspended


def readiness_missing(offer: Offer) -> str:
    return "never observed" if offer.observation is None else ""


def node_unreachable(offer: Offer) -> str:
    seen = offer.observation
    if seen is None or (seen.facts is not None and not seen.problem):
        return ""
    return seen.message or seen.problem or "no answer"


def readiness_stale(offer: Offer) -> str:
    if offer.evidence_age is None:
        return "time of the evidence unknown"
    if offer.evidence_age < timedelta(0):
        return "observed at a time to come: the clock was set back"
    if offer.evidence_age <= offer.evidence_limit:
        return ""
    return f"observed {format_age(offer.evidence_age.total_seconds())} ago"


def readiness_incomplete(offer: Offer) -> str:
    """What its probe said stands in it, so that nobody takes a failed probe for an empty host."""
    facts = offer.facts
    if facts is None or facts.gpus is None:
        return "GPUs unknown" + said_by("gpus", facts)
    if facts.descriptors is None:
        return "descriptors unknown" + said_by("descriptors", facts)
    if facts.card_errors is None:
        return "errors of cards unknown" + said_by("cardErrors", facts)
    if facts.fabric is None and facts.probe_version >= FABRIC_SINCE:
        return "fabric unknown" + said_by("fabric", facts)
    return ""


def said_by(probe: str, facts: NodeFacts | None) -> str:
    """What the host said instead of an answer, in its own words."""
    said = [p.message for p in (facts.problems if facts else ()) if p.probe == probe]
    return f": probe {probe}: {said[0]}" if said else ""


def identity_changed(offer: Offer) -> str:
    expected = offer.spec.identity.machine_id if offer.spec.identity else ""
    seen = offer.facts.machine_id if offer.facts else ""
    return f"machine id {seen or 'unknown'}" if expected and seen != expected else ""


def foreign_descriptors(offer: Offer) -> str:
    return f"holds {listed(offer.foreign)} of another state" if offer.foreign else ""


def unclaimed_descriptors(offer: Offer) -> str:
    """After a backup was restored, hosts may hold allocations made since."""
    return f"holds {listed(offer.unclaimed)}, unknown to this state" if offer.unclaimed else ""


def node_in_doubt(offer: Offer) -> str:
    """A slot of it may not have been proved clean, or somebody unknown may be on it."""
    return offer.doubt


def cards_of_others(offer: Offer) -> str:
    """The host is wrong, or the specs are, or somebody has moved a GPU."""
    return f"shows {listed(offer.strange)}" if offer.strange else ""


def fabric_faulty(offer: Offer) -> str:
    """No GPU of such a board computes, whatever each of them reports."""
    return listed(fabric_faults(offer.facts))


def driver_outside_family(offer: Offer) -> str:
    if offer.drivers is None:
        return f"family {offer.spec.family} is unknown"
    versions = {gpu.driver or "unknown" for gpu in offer.gpus.values()}
    outside = sorted(v for v in versions if v.split(".")[0] not in offer.drivers)
    return f"driver {listed(outside)}" if outside else ""


def memory_exceeded(offer: Offer) -> str:
    """Slots promise their memory to tenants, and the reserve keeps the host alive (INV-05)."""
    seen = offer.facts.memory_mib if offer.facts else None
    if seen is None:
        return "memory unknown"
    promised = sum(slot.spec.memory_gib for slot in offer.slots) + offer.spec.reserve.memory_gib
    if promised * MIB_PER_GIB <= seen:
        return ""
    return f"slots and reserve promise {promised} GiB of {seen // MIB_PER_GIB}"


def node_not_prepared(offer: Offer) -> str:
    return offer.unprepared


def shared_with_other_tenant(offer: Offer, held: Occupancy, need: Need) -> str:
    if offer.spec.sharing != Sharing.TENANT:
        return ""
    others = sorted(held.tenants - {need.tenant})
    return f"{', '.join(others)} on it" if others else ""


def shared_with_other_project(offer: Offer, held: Occupancy, need: Need) -> str:
    if offer.spec.sharing != Sharing.PROJECT:
        return ""
    others = sorted(held.projects - {need.project})
    return f"{', '.join(others)} on it" if others else ""


def node_exclusive(offer: Offer, held: Occupancy, need: Need) -> str:
    return f"held whole by {held.whole}" if held.whole else ""


def node_has_slices(offer: Offer, held: Occupancy, need: Need) -> str:
    if need.shape is not Shape.BAREMETAL or not (held.mask or held.tenants):
        return ""
    names = [slot.name for at, slot in enumerate(offer.slots) if held.mask >> at & 1]
    return f"{', '.join(names) or 'slots'} held"


def slot_not_named(offer: Offer, slot: InventorySlot) -> str:
    return slot.unnamed


def slot_disabled(offer: Offer, slot: InventorySlot) -> str:
    disabled = slot.spec.disabled
    if disabled is None:
        return ""
    return f"{disabled.reason} ({disabled.ticket})" if disabled.ticket else str(disabled.reason)


def slot_not_approved(offer: Offer, slot: InventorySlot) -> str:
    return "" if slot.approved else "no approval in force"


def device_shared(offer: Offer, slot: InventorySlot) -> str:
    return slot.shared


def gpu_faulty(offer: Offer, slot: InventorySlot) -> str:
    """Named before it is missed: a card that fell off the bus is known by what the kernel says."""
    seen = offer.gpus.get(slot.spec.gpu.uuid)
    at = seen.pci_address if seen else slot.spec.gpu.pci_address
    faults = faults_of(offer.facts, [at])
    return f"{slot.spec.gpu.uuid}: {listed(faults)}" if faults else ""


def gpu_missing(offer: Offer, slot: InventorySlot) -> str:
    return "" if slot.spec.gpu.uuid in offer.gpus else f"{slot.spec.gpu.uuid} not seen"


def gpu_changed(offer: Offer, slot: InventorySlot) -> str:
    """An approval is for a GPU of this sort in this place."""
    seen, stated = offer.gpus[slot.spec.gpu.uuid], slot.spec.gpu
    tolerance = offer.family.spec.gpu.memory_tolerance_percent if offer.family else None
    if seen.model != stated.model or not near(seen.memory_mib, stated.memory_mib, tolerance):
        return f"{seen.model} of {seen.memory_mib} MiB seen"
    if seen.pci_address != stated.pci_address:
        return f"at {seen.pci_address}, approved at {stated.pci_address}"
    return ""


def gpu_ambiguous(offer: Offer, slot: InventorySlot) -> str:
    """While a change of one node is held back, its card may stand in the spec of another."""
    others = sorted(slot.doubles)
    return f"{slot.spec.gpu.uuid} is in {', '.join(others)} as well" if others else ""


def gpu_seen_twice(offer: Offer, slot: InventorySlot) -> str:
    others = listed(sorted(slot.elsewhere))
    return f"{slot.spec.gpu.uuid} is shown by {others} as well" if others else ""


def gpu_busy(offer: Offer, slot: InventorySlot) -> str:
    """A GPU is given out as clean as it has to be given back."""
    processes = offer.gpus[slot.spec.gpu.uuid].processes
    if processes is None:
        return "its processes are unknown"
    return f"processes {listed(processes)} on it" if processes else ""


def numa_mismatch(offer: Offer, slot: InventorySlot) -> str:
    seen = offer.gpus[slot.spec.gpu.uuid].numa
    if seen is None:
        return f"NUMA node unknown, {slot.spec.numa} when it was approved"
    # The kernel says -1 where a machine has no NUMA nodes at all: its only node is 0.
    return "" if max(seen, 0) == slot.spec.numa else f"NUMA {seen}, approved {slot.spec.numa}"


def nvme_missing(offer: Offer, slot: InventorySlot) -> str:
    if slot.spec.nvme is None:
        return ""
    seen = offer.facts.nvmes if offer.facts else None
    if seen is None:
        return "disks unknown"
    return "" if slot.spec.nvme.id in seen else f"{slot.spec.nvme.id} not seen"


def nic_missing(offer: Offer, slot: InventorySlot) -> str:
    if slot.spec.nic is None:
        return ""
    seen = offer.facts.nics if offer.facts else None
    if seen is None:
        return "network cards unknown"
    return "" if slot.spec.nic.pci_address in seen else f"{slot.spec.nic.pci_address} not seen"


def min_cpus(offer: Offer, slot: InventorySlot, need: Need) -> str:
    return "" if slot.cpus >= need.min_cpus_per_slot else f"{slot.cpus} CPUs"


def min_memory(offer: Offer, slot: InventorySlot, need: Need) -> str:
    memory = slot.spec.memory_gib
    return "" if memory >= need.min_memory_gib_per_slot else f"{memory} GiB"


def rdma_missing(offer: Offer, slot: InventorySlot, need: Need) -> str:
    nic = slot.spec.nic
    return "no RDMA card" if need.rdma and not (nic and nic.rdma) else ""
