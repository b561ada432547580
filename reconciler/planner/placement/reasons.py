"""Reasons: the words for why nodes do not fit, and what helps.

Rules keep their symbols wherever a program reads them, and in `explain`; no code decides by words.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from reconciler.model.ref import Ref

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "other_node": "not the pinned node",
        "family_mismatch": "of another family",
        "isolation_not_offered": "of another isolation",
        "shape_not_offered": "not sold in this shape",
        "project_suspended": "closed to a suspended project",
        "class_not_available": "without the class of its storage",
        "storage_backend_unfit": "of an isolation that cannot mount its storage",
        "storage_on_other_node": "without the data of its storage",
        "node_not_enrolled": "not usable yet",
        "node_not_named": "not offered by specs any more",
        "not_approved": "not approved",
        "node_unavailable": "out of use",
        "node_draining": "draining",
        "suspended": "suspended",
        "readiness_missing": "never observed",
        "node_unreachable": "unreachable",
        "readiness_stale": "observed too long ago",
        "readiness_incomplete": "with evidence missing",
        "host_identity_changed": "another machine at its address",
        "node_not_prepared": "not prepared for tenants",
        "foreign_descriptors": "with allocations of another state",
        "unclaimed_descriptors": "with allocations unknown to the state",
        "node_in_doubt": "in doubt since the state was lost",
        "cards_of_others": "showing cards of other nodes",
        "fabric_faulty": "with a fabric that is not sound",
        "driver_outside_family": "driver outside its family",
        "memory_exceeded": "with too much memory promised",
        "vendor_mismatch": "with GPUs that its runtimes are not for",
        "family_not_supported": "of a family that its runtimes are not for",
        "driver_too_old": "with a driver too old for its runtimes",
        "cuda_too_new": "without the CUDA of its runtimes",
        "compatibility_unknown": "of which nobody knows whether its runtimes run",
        "host_shared_with_other_tenant": "other tenant on host",
        "host_shared_with_other_project": "other project on host",
        "node_exclusive": "held whole",
        "node_has_slices": "slices on it",
        "node_too_small": "too few slots",
        "slot_not_named": "slots not offered by specs any more",
        "slot_disabled": "slots disabled",
        "slot_not_approved": "slots not approved",
        "device_shared": "device in two slots",
        "gpu_ambiguous": "GPU in two slots",
        "gpu_faulty": "GPU with faults",
        "gpu_missing": "GPU not seen",
        "gpu_seen_twice": "GPU seen on two hosts",
        "gpu_changed": "GPU changed since its approval",
        "gpu_busy": "GPU in use by strangers",
        "numa_mismatch": "GPU on another NUMA node",
        "nvme_missing": "disk not seen",
        "nic_missing": "network card not seen",
        "min_cpus": "too few CPUs a slot",
        "min_memory": "too little memory a slot",
        "rdma_missing": "no RDMA card",
        "too_few_free_slots": "too few free slots",
    }
)

UNASKED = frozenset({"readiness_missing", "readiness_stale"})
"""Rules that a fresh answer of the host may lift at once."""


def counted(refusals: Mapping[str, int]) -> str:
    """Counts in words: `40 nodes: 31 too few free slots · 9 draining`."""
    nodes = sum(refusals.values())
    if not nodes:
        return "there are no nodes"
    rules = " · ".join(f"{number} {WORDS[rule]}" for rule, number in refusals.items())
    return f"{nodes} node{'' if nodes == 1 else 's'}: {rules}"


def remedy(ref: Ref, refusals: Mapping[str, int]) -> str:
    """The next thing to do about a reason."""
    if may_be_asked(refusals):
        return f"ask the hosts: gpuaas plan --refresh; then: gpuaas explain {ref}"
    return f"gpuaas explain {ref}"


def may_be_asked(refusals: Mapping[str, int]) -> bool:
    """Whether some node may fit as soon as it has answered."""
    return not UNASKED.isdisjoint(refusals)
