"""Which nodes may serve a request: ordered tables of named rules, the first refusal wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from reconciler.model.host.capacity import Candidate, Need, SlotState
from reconciler.model.records import dataclass
from reconciler.model.rules import Objection, first_objection
from reconciler.planner.bundles.compatibility import RULES as FIT_RULES
from reconciler.planner.placement import predicates
from reconciler.planner.placement.inventory import InventorySlot, Occupancy, Offer
from reconciler.planner.storage.topology import REACH_RULES

REQUEST_RULES: Mapping[str, Callable[[Offer, Need], str]] = MappingProxyType(
    {
        "other_node": predicates.other_node,
        "family_mismatch": predicates.family_mismatch,
        "isolation_not_offered": predicates.isolation_not_offered,
        "shape_not_offered": predicates.shape_not_offered,
        "project_suspended": predicates.project_suspended,
        **{code: partial(predicates.storage_out_of_reach, code) for code in REACH_RULES},
    }
)
"""A node against a request, whatever its condition."""

NODE_RULES: Mapping[str, Callable[[Offer], str]] = MappingProxyType(
    {
        "node_not_enrolled": predicates.node_not_enrolled,
        "node_not_named": predicates.node_not_named,
        "not_approved": predicates.not_approved,
        "node_unavailable": predicates.node_unavailable,
        "node_draining": predicates.node_draining,
        "suspended": predicates.suspended,
        "readiness_missing": predicates.readiness_missing,
        "node_unreachable": predicates.node_unreachable,
        "readiness_stale": predicates.readiness_stale,
        "readiness_incomplete": predicates.readiness_incomplete,
        "host_identity_changed": predicates.identity_changed,
        "node_not_prepared": predicates.node_not_prepared,
        "foreign_descriptors": predicates.foreign_descriptors,
        "unclaimed_descriptors": predicates.unclaimed_descriptors,
        "node_in_doubt": predicates.node_in_doubt,
        "cards_of_others": predicates.cards_of_others,
        "fabric_faulty": predicates.fabric_faulty,
        "driver_outside_family": predicates.driver_outside_family,
        "memory_exceeded": predicates.memory_exceeded,
    }
)
"""A node's own condition."""

RUNTIME_RULES: Mapping[str, Callable[[Offer, Need], str]] = MappingProxyType(
    {code: partial(predicates.runtime_unfit, code) for code in FIT_RULES}
)
"""What is to run on a node against what it shows, once that can be believed."""

HELD_RULES: Mapping[str, Callable[[Offer, Occupancy, Need], str]] = MappingProxyType(
    {
        "host_shared_with_other_tenant": predicates.shared_with_other_tenant,
        "host_shared_with_other_project": predicates.shared_with_other_project,
        "node_exclusive": predicates.node_exclusive,
        "node_has_slices": predicates.node_has_slices,
    }
)
"""A node by who is on it already."""

FOR_ALL = MappingProxyType(
    {name: rule for name, rule in HELD_RULES.items() if not name.startswith("host_shared_")}
)
"""Those that say the same to everybody."""

SLOT_RULES: Mapping[str, Callable[[Offer, InventorySlot], str]] = MappingProxyType(
    {
        "slot_not_named": predicates.slot_not_named,
        "slot_disabled": predicates.slot_disabled,
        "slot_not_approved": predicates.slot_not_approved,
        "device_shared": predicates.device_shared,
        "gpu_ambiguous": predicates.gpu_ambiguous,
        "gpu_faulty": predicates.gpu_faulty,
        "gpu_missing": predicates.gpu_missing,
        "gpu_seen_twice": predicates.gpu_seen_twice,
        "gpu_changed": predicates.gpu_changed,
        "gpu_busy": predicates.gpu_busy,
        "numa_mismatch": predicates.numa_mismatch,
        "nvme_missing": predicates.nvme_missing,
        "nic_missing": predicates.nic_missing,
    }
)
"""One slot's own condition; the other slots of its node may serve."""

SLOT_STATES: Mapping[str, SlotState] = MappingProxyType(
    {
        "node_not_enrolled": SlotState.UNAVAILABLE,
        "node_not_named": SlotState.UNAVAILABLE,
        "not_approved": SlotState.NOT_APPROVED,
        "node_unavailable": SlotState.UNAVAILABLE,
        "node_draining": SlotState.DRAINING,
        "suspended": SlotState.DRAINING,
        "readiness_missing": SlotState.UNKNOWN,
        "node_unreachable": SlotState.UNKNOWN,
        "readiness_stale": SlotState.UNKNOWN,
        "readiness_incomplete": SlotState.UNKNOWN,
        "slot_not_named": SlotState.UNAVAILABLE,
        "slot_disabled": SlotState.DISABLED,
        "slot_not_approved": SlotState.NOT_APPROVED,
    }
)
"""What a free slot is called while a rule keeps it from everybody; by all others, not ready."""

PROMISE_RULES: Mapping[str, Callable[[Offer, InventorySlot, Need], str]] = MappingProxyType(
    {
        "min_cpus": predicates.min_cpus,
        "min_memory": predicates.min_memory,
        "rdma_missing": predicates.rdma_missing,
    }
)
"""One slot against what the SKU promises."""

NODE_TOO_SMALL, TOO_FEW_FREE_SLOTS = "node_too_small", "too_few_free_slots"
"""A node that never has as many slots, and one that has them not free; both are last resorts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """The slots of a node that may be taken, as a mask, and the first rule that refused it."""

    usable: int = 0
    rule: str = ""
    detail: str = ""


def judge(offer: Offer, held: Occupancy, need: Need, *, sharing: bool = True) -> NodeVerdict:
    """Judge one node for one request, by every rule in order.

    Without `sharing`, everybody on it counts as being of the same project.
    """
    rules = HELD_RULES if sharing else FOR_ALL
    refusal = _objection(offer, need) or first_objection(rules, offer, held, need)
    if refusal is not None:
        return NodeVerdict(rule=refusal.code, detail=refusal.why)
    verdict = _judge_slots(offer, need)
    if verdict.rule:
        return verdict
    free = verdict.usable & ~held.mask
    if free.bit_count() < _wanted(offer, need):
        detail = f"{free.bit_count()} of {_wanted(offer, need)} free"
        return NodeVerdict(usable=free, rule=TOO_FEW_FREE_SLOTS, detail=detail)
    return NodeVerdict(usable=free)


def refused_to_all(offer: Offer, need: Need) -> Candidate:
    """The rule by which a node refuses all who ask this, whatever is free on it; empty if none."""
    code, why = _objection(offer, need) or ("", "")
    return Candidate(node=offer.name, rule=code, detail=why)


def refused_elsewhere(offer: Offer, need: Need) -> str:
    """The rule on a node's kind that refuses the request; '' if none does."""
    found = first_objection(REQUEST_RULES, offer, need)
    return found.code if found else ""


def usable_slots(offer: Offer, need: Need) -> int:
    """The slots that all rules but those on who holds what allow; 0 if too few for the request."""
    return 0 if _objection(offer, need) else _judge_slots(offer, need).usable


def hindrance(offer: Offer, slot: InventorySlot) -> tuple[SlotState, str]:
    """Why a slot that nobody holds can be given to nobody; FREE if it can."""
    found = first_objection(NODE_RULES, offer) or first_objection(SLOT_RULES, offer, slot)
    if found is None:
        return SlotState.FREE, ""
    return SLOT_STATES.get(found.code, SlotState.NOT_READY), found.why


def _objection(offer: Offer, need: Need) -> Objection | None:
    return (
        first_objection(REQUEST_RULES, offer, need)
        or first_objection(NODE_RULES, offer)
        or first_objection(RUNTIME_RULES, offer, need)
    )


def _judge_slots(offer: Offer, need: Need) -> NodeVerdict:
    wanted = _wanted(offer, need)
    usable = (1 << len(offer.slots)) - 1
    if len(offer.slots) < wanted:
        return NodeVerdict(rule=NODE_TOO_SMALL, detail=f"{len(offer.slots)} slots")
    for name, objection in _slot_objections(need):
        objected = []
        for at, slot in enumerate(offer.slots):
            if usable >> at & 1 and (detail := objection(offer, slot)):
                usable &= ~(1 << at)
                objected.append(f"{slot.name}: {detail}")
        if usable.bit_count() < wanted:
            return NodeVerdict(rule=name, detail="; ".join(objected))
    return NodeVerdict(usable=usable)


def _slot_objections(need: Need) -> list[tuple[str, Callable[[Offer, InventorySlot], str]]]:
    own = SLOT_RULES.items()
    promised = [
        (name, lambda offer, slot, judged=objection: judged(offer, slot, need))
        for name, objection in PROMISE_RULES.items()
    ]
    return [*own, *promised]


def _wanted(offer: Offer, need: Need) -> int:
    return need.slots or len(offer.slots)
