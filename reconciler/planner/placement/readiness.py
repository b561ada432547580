"""Readiness: what the last evidence of a node shows, one check after the other.

Placement asks for the first objection and stops; this is for people, who want to see what passed
as well (INV-15). A check without an answer is unknown, never passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from reconciler.kinds.approval import HOST
from reconciler.kinds.node_family import NodeFamilySpec
from reconciler.model.host.capacity import Isolation
from reconciler.model.host.evidence import Check, CheckResult, NodeFacts
from reconciler.model.host.facts.named_fact import UNKNOWN
from reconciler.model.moment import format_age
from reconciler.model.records import dataclass
from reconciler.planner.core.facts import listed
from reconciler.planner.nodes.gpu_health import REMEDY, marks_of
from reconciler.planner.placement import predicates
from reconciler.planner.placement.inventory import InventorySlot, Offer
from reconciler.planner.placement.predicates import MIB_PER_GIB

OF_MACHINES = frozenset({"gpus", "cardErrors", "fabric", "memory", "machineId", "descriptors"})
"""Probes without whose answer nobody is placed; those of drives and adapters only where a slot has

one. What a tenant makes unreadable is nothing of the machine's.
"""

PASS, FAIL, UNSEEN = CheckResult.PASS, CheckResult.FAIL, CheckResult.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What slots may have: whether one states it, whether the host could say, and the rule."""

    stated: Callable[[InventorySlot], bool]
    told: Callable[[Offer, InventorySlot], bool]
    objection: Callable[[Offer, InventorySlot], str]


_PARTS: Mapping[str, _Part] = {
    "NUMA nodes": _Part(
        stated=lambda slot: True,
        told=lambda offer, slot: offer.gpus[slot.spec.gpu.uuid].numa is not None,
        objection=predicates.numa_mismatch,
    ),
    "disks": _Part(
        stated=lambda slot: slot.spec.nvme is not None,
        told=lambda offer, slot: offer.facts is not None and offer.facts.nvmes is not None,
        objection=predicates.nvme_missing,
    ),
    "network cards": _Part(
        stated=lambda slot: slot.spec.nic is not None,
        told=lambda offer, slot: offer.facts is not None and offer.facts.nics is not None,
        objection=predicates.nic_missing,
    ),
}


def readiness(offer: Offer, family: NodeFamilySpec | None) -> Iterator[Check]:
    """Every check of a node's own condition, each after those it depends on."""
    yield _reachable(offer)
    yield _age(offer)
    facts = offer.facts
    if facts is None:
        return
    if offer.spec.identity is not None:
        known = bool(facts.machine_id)
        fine = f"machine {facts.machine_id}"
        yield _check("identity", predicates.identity_changed(offer), fine, known=known)
    yield Check(name="boot", result=PASS if facts.boot_id else UNSEEN, value=facts.boot_id)
    yield from _unanswered(offer, facts)
    yield _os(facts, family)
    yield _drivers(offer, facts)
    yield _cards(offer, facts)
    yield _errors(offer, facts)
    yield _fabric(offer, facts)
    yield from _parts(offer)
    yield _memory(offer, facts)
    yield from _walls(offer, facts)
    yield _strangers(offer, facts)
    if offer.doubt:
        yield Check(name="doubt", result=FAIL, value=offer.doubt)


def contradictions(offer: Offer) -> Mapping[str, str]:
    """Names that an approval may cover and that the last evidence contradicts, and how."""
    if offer.facts is None:
        message = offer.observation.message if offer.observation else ""
        changed = offer.observation and offer.observation.problem == "host_identity_changed"
        return {HOST: message} if changed else {}
    host = predicates.identity_changed(offer)
    doubts = {HOST: host} if host else {}
    if offer.facts.gpus is not None:
        doubts |= {slot.name: why for slot in offer.slots if (why := _doubt(offer, slot))}
    return doubts


def _doubt(offer: Offer, slot: InventorySlot) -> str:
    if missing := _card(offer, slot):
        return missing
    told = (part for part in _PARTS.values() if part.told(offer, slot))
    return next((why for part in told if (why := part.objection(offer, slot))), "")


def _check(name: str, objection: str, fine: str, *, known: bool = True) -> Check:
    """A rule without an objection has passed; what the host could not say is no failure."""
    result = PASS if not objection else FAIL if known else UNSEEN
    return Check(name=name, result=result, value=objection or fine)


def _reachable(offer: Offer) -> Check:
    if offer.observation is None:
        return Check(name="reachable", result=UNSEEN, value="never observed")
    if why := predicates.node_unreachable(offer):
        return Check(name="reachable", result=FAIL, value=why)
    return Check(name="reachable", result=PASS, value="answered")


def _age(offer: Offer) -> Check:
    age, limit = offer.evidence_age, format_age(offer.evidence_limit.total_seconds())
    if age is None:
        return Check(name="evidence", result=UNSEEN, value="none")
    if age < timedelta(0):
        return _check("evidence", predicates.readiness_stale(offer), "")
    stale = age > offer.evidence_limit
    value = f"{format_age(age.total_seconds())} old, counts for {limit}"
    return Check(name="evidence", result=FAIL if stale else PASS, value=value)


def _os(facts: NodeFacts, family: NodeFamilySpec | None) -> Check:
    """The systems that the family is known to work on; placement does not require them (INV-17)."""
    if not facts.os or family is None:
        value = "not told" if family else "its family is unknown"
        return Check(name="os", result=UNSEEN, value=value)
    known = facts.os in family.base.os
    value = facts.os if known else f"{facts.os}, family: {', '.join(family.base.os)}"
    return Check(name="os", result=PASS if known else FAIL, value=value)


def _drivers(offer: Offer, facts: NodeFacts) -> Check:
    if facts.gpus is None:
        return Check(name="driver", result=UNSEEN, value="no card answered")
    versions = listed(sorted({gpu.driver or UNKNOWN for gpu in facts.gpus}))
    if not versions or versions == UNKNOWN or offer.drivers is None:
        value = versions if offer.drivers else "its family is unknown"
        return Check(name="driver", result=UNSEEN, value=value or "no cards")
    if predicates.driver_outside_family(offer):
        value = f"{versions}, family: {', '.join(sorted(offer.drivers))}"
        return Check(name="driver", result=FAIL, value=value)
    return Check(name="driver", result=PASS, value=versions)


def _cards(offer: Offer, facts: NodeFacts) -> Check:
    if facts.gpus is None:
        why = predicates.said_by("gpus", facts)
        return Check(name="cards", result=UNSEEN, value=f"no answer of the driver{why}")
    wrong = [f"{slot.name}: {why}" for slot in offer.slots if (why := _card(offer, slot))]
    wrong += [strange] if (strange := predicates.cards_of_others(offer)) else []
    if wrong:
        return Check(name="cards", result=FAIL, value="; ".join(wrong))
    more = len(facts.gpus) - len(offer.slots)
    value = f"all {len(offer.slots)} there" + (f", {more} more in no slot" if more > 0 else "")
    return Check(name="cards", result=PASS, value=value)


def _errors(offer: Offer, facts: NodeFacts) -> Check:
    """What is wrong with GPUs, and what to do; it ends only when a host reports so."""
    told = [
        f"{slot.name}: {why}" for slot in offer.slots if (why := predicates.gpu_faulty(offer, slot))
    ]
    why = f"{'; '.join(told)} ({REMEDY})" if told else ""
    if facts.card_errors is None:
        why = "not told"
    fine = "; ".join(_marks(offer, facts)) or "none"
    return _check("card errors", why, fine, known=facts.card_errors is not None)


def _marks(offer: Offer, facts: NodeFacts) -> Iterator[str]:
    """GPUs that are in use, and that somebody should look after one day."""
    for slot in offer.slots:
        if marks := marks_of(facts, slot.spec.gpu.pci_address):
            yield f"{slot.name}: {slot.spec.gpu.uuid}: {listed(marks)}; it stays in use"


def _fabric(offer: Offer, facts: NodeFacts) -> Check:
    if facts.fabric is None:
        return Check(name="fabric", result=UNSEEN, value="not told")
    return _check("fabric", predicates.fabric_faulty(offer), "nothing against it")


def _unanswered(offer: Offer, facts: NodeFacts) -> Iterator[Check]:
    """What could not be asked, in the words of the program that refused."""
    needed = set(OF_MACHINES)
    needed |= {"nvmes"} if any(slot.spec.nvme for slot in offer.slots) else set()
    needed |= {"nics"} if any(slot.spec.nic for slot in offer.slots) else set()
    for one in facts.problems:
        if one.probe in needed:
            yield Check(name=f"probe {one.probe}", result=UNSEEN, value=one.message)


def _card(offer: Offer, slot: InventorySlot) -> str:
    """Whether the card of a slot is seen, and is what the slot says."""
    if why := predicates.gpu_missing(offer, slot) or predicates.gpu_seen_twice(offer, slot):
        return why
    return predicates.gpu_changed(offer, slot)


def _parts(offer: Offer) -> Iterator[Check]:
    """What else belongs to slots; nothing is asked of a slot whose GPU was not seen."""
    seen = [slot for slot in offer.slots if slot.spec.gpu.uuid in offer.gpus]
    for name, part in _PARTS.items():
        slots = [slot for slot in seen if part.stated(slot)]
        wrong = [f"{slot.name}: {why}" for slot in slots if (why := part.objection(offer, slot))]
        known = all(part.told(offer, slot) for slot in slots)
        if slots:
            yield _check(name, "; ".join(wrong), "as stated", known=known)


def _memory(offer: Offer, facts: NodeFacts) -> Check:
    fine = f"{(facts.memory_mib or 0) // MIB_PER_GIB} GiB"
    known = facts.memory_mib is not None
    return _check("memory", predicates.memory_exceeded(offer), fine, known=known)


def _walls(offer: Offer, facts: NodeFacts) -> Iterator[Check]:
    """What `node.prepare` made, as far as it must hold before a tenant comes."""
    if offer.spec.isolation is Isolation.ACCOUNT:
        known = facts.platform is not None
        why = predicates.node_not_prepared(offer)
        yield _check("walls", why, "as they were prepared", known=known)


def _strangers(offer: Offer, facts: NodeFacts) -> Check:
    if facts.descriptors is None:
        return Check(name="allocations", result=UNSEEN, value="descriptors not listed")
    why = predicates.foreign_descriptors(offer) or predicates.unclaimed_descriptors(offer)
    return _check("allocations", why, "all known here")
