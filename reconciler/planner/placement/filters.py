"""Which nodes may serve a request: ordered tables of named rules, the first refusal wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from reconciler.model.host.capacity import Candidate, Need, SlotState
from reconciler.model.records import dataclass
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

NODE_RULES: Mapping[str, tuple[Callable[[Offer], str], SlotState]] = MappingProxyType(
    {
        "node_not_enrolled": (predicates.node_not_enrolled, SlotState.UNAVAILABLE),
        "node_not_named": (predicates.node_not_named, SlotState.UNAVAILABLE),
        "not_approved": (predicates.not_approved, SlotState.NOT_APPROVED),
        "node_unavailable": (predicates.node_unavailable, SlotState.UNAVAILABLE),
        "node_draining": (predicates.node_draining, SlotState.DRAINING),
        "suspended": (predicates.suspended, SlotState.DRAINING),
        "readiness_missing": (predicates.readiness_missing, SlotState.UNKNOWN),
        "node_unreachable": (predicates.node_unreachable, SlotState.UNKNOWN),
        "readiness_stale": (predicates.readiness_stale, SlotState.UNKNOWN),
        "readiness_incomplete": (predicates.readiness_incomplete, SlotState.UNKNOWN),
        "host_identity_changed": (predicates.identity_changed, SlotState.NOT_READY),
        "node_not_prepared": (predicates.node_not_prepared, SlotState.NOT_READY),
        "foreign_descriptors": (predicates.foreign_descriptors, SlotState.NOT_READY),
        "unclaimed_descriptors": (predicates.unclaimed_descriptors, SlotState.NOT_READY),
        "node_in_doubt": (predicates.node_in_doubt, SlotState.NOT_READY),
        "cards_of_others": (predicates.cards_of_others, SlotState.NOT_READY),
        "fabric_faulty": (predicates.fabric_faulty, SlotState.NOT_READY),
        "driver_outside_family": (predicates.driver_outside_family, SlotState.NOT_READY),
        "memory_exceeded": (predicates.memory_exceeded, SlotState.NOT_READY),
    }
)
"""A node's own condition, and what its free slots are called meanwhile."""

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

SLOT_RULES: Mapping[str, tuple[Callable[[Offer, InventorySlot], str], SlotState]] = (
    MappingProxyType(
        {
            "slot_not_named": (predicates.slot_not_named, SlotState.UNAVAILABLE),
            "slot_disabled": (predicates.slot_disabled, SlotState.DISABLED),
            "slot_not_approved": (predicates.slot_not_approved, SlotState.NOT_APPROVED),
            "device_shared": (predicates.device_shared, SlotState.NOT_READY),
            "gpu_ambiguous": (predicates.gpu_ambiguous, SlotState.NOT_READY),
            "gpu_faulty": (predicates.gpu_faulty, SlotState.NOT_READY),
            "gpu_missing": (predicates.gpu_missing, SlotState.NOT_READY),
            "gpu_seen_twice": (predicates.gpu_seen_twice, SlotState.NOT_READY),
            "gpu_changed": (predicates.gpu_changed, SlotState.NOT_READY),
            "gpu_busy": (predicates.gpu_busy, SlotState.NOT_READY),
            "numa_mismatch": (predicates.numa_mismatch, SlotState.NOT_READY),
            "nvme_missing": (predicates.nvme_missing, SlotState.NOT_READY),
            "nic_missing": (predicates.nic_missing, SlotState.NOT_READY),
        }
    )
)
"""One slot's own condition; the other slots of its node may serve."""

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
    refusal = _judge_node(offer, need)
    if refusal is not None:
        return refusal
    for name, objection in (HELD_RULES if sharing else FOR_ALL).items():
        if detail := objection(offer, held, need):
            return NodeVerdict(rule=name, detail=detail)
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
    refusal = _judge_node(offer, need) or NodeVerdict()
    return Candidate(node=offer.name, rule=refusal.rule, detail=refusal.detail)


def refused_elsewhere(offer: Offer, need: Need) -> str:
    """The rule on a node's kind that refuses the request; '' if none does."""
    told = (name for name, rule in REQUEST_RULES.items() if rule(offer, need))
    return next(told, "")


def usable_slots(offer: Offer, need: Need) -> int:
    """The slots that all rules but those on who holds what allow; 0 if too few for the request."""
    return 0 if _judge_node(offer, need) else _judge_slots(offer, need).usable


def hindrance(offer: Offer, slot: InventorySlot) -> tuple[SlotState, str]:
    """Why a slot that nobody holds can be given to nobody; FREE if it can."""
    for objection, state in NODE_RULES.values():
        if detail := objection(offer):
            return state, detail
    for slot_objection, state in SLOT_RULES.values():
        if detail := slot_objection(offer, slot):
            return state, detail
    return SlotState.FREE, ""


def _judge_node(offer: Offer, need: Need) -> NodeVerdict | None:
    for name, of_request in REQUEST_RULES.items():
        if detail := of_request(offer, need):
            return NodeVerdict(rule=name, detail=detail)
    for name, (of_node, _) in NODE_RULES.items():
        if detail := of_node(offer):
            return NodeVerdict(rule=name, detail=detail)
    for name, of_runtimes in RUNTIME_RULES.items():
        if detail := of_runtimes(offer, need):
            return NodeVerdict(rule=name, detail=detail)
    return None


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
    own = [(name, objection) for name, (objection, _) in SLOT_RULES.items()]
    promised = [
        (name, lambda offer, slot, judged=objection: judged(offer, slot, need))
        for name, objection in PROMISE_RULES.items()
    ]
    return [*own, *promised]


def _wanted(offer: Offer, need: Need) -> int:
    return need.slots or len(offer.slots)
