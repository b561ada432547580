"""Approval: what exactly a person approved, as a digest that anybody can compute offline.

An approval covers the host and slots by name. It holds as long as nothing that tells what they
are has changed; the machine's own readiness is another matter and none of this.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from reconciler.kinds.checks.once import once
from reconciler.kinds.node.spec import Approval, NameDigest, NodeSpec, Slot
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource

HOST = "host"
"""The name by which an approval covers the host itself; no slot may have it."""


def approval_digest(spec: NodeSpec, covers: Iterable[str]) -> str:
    """Digest of one entry per covered name; what is not stated is null, not left out."""
    slots = {slot.name: slot for slot in spec.slots}
    entries = {name: _slot_identity(spec, slots.get(name)) for name in covers if name != HOST}
    if HOST in covers:
        entries[HOST] = _host_identity(spec)
    return digest(entries)


def name_digests(spec: NodeSpec, covers: Iterable[str]) -> tuple[NameDigest, ...]:
    """A digest for each covered name, in its order."""
    return tuple(NameDigest(name=name, digest=approval_digest(spec, [name])) for name in covers)


def current_names(spec: NodeSpec, approval: Approval) -> frozenset[str]:
    """What of all that it covers is still what was approved.

    Of one digest for all nobody can tell which has changed, so then none of it is.
    """
    if approval.digest is not None:
        whole = approval_digest(spec, approval.covers) == approval.digest
        return frozenset(approval.covers) if whole else frozenset()
    given = {one.name: one.digest for one in approval.digests}
    covered = name_digests(spec, (name for name in approval.covers if name in given))
    return frozenset(one.name for one in covered if given[one.name] == one.digest)


@lru_cache(maxsize=16384)
def approved_names(spec: NodeSpec) -> frozenset[str]:
    """The host and slots whose newest covering approval is current."""
    newest = {
        name: approval
        for approval in sorted(spec.approvals, key=lambda one: one.at)
        for name in approval.covers
    }
    current = {one: current_names(spec, one) for one in set(newest.values())}
    known = {HOST} | {slot.name for slot in spec.slots}
    return frozenset(name for name, one in newest.items() if name in current[one] & known)


@once
def approved_nodes(desired: Desired) -> dict[Ref, tuple[Resource, frozenset[str]]]:
    """Every node with its approved names."""
    return {
        ref: (resource, approved_names(resource.spec))
        for ref, resource in desired.resources.items()
        if ref.kind == "node"
    }


@once
def approved_by_family(desired: Desired) -> dict[str, list[tuple[Resource, frozenset[str]]]]:
    """The same by the family of each node."""
    found: dict[str, list[tuple[Resource, frozenset[str]]]] = {}
    for node, names in approved_nodes(desired).values():
        found.setdefault(node.spec.family, []).append((node, names))
    return found


def _host_identity(spec: NodeSpec) -> dict[str, object]:
    return {
        "identity": encode(spec.identity),
        "family": spec.family,
        "isolation": spec.isolation,
        "shapes": list(spec.shapes),
        "fabric": encode(spec.fabric),
    }


def _slot_identity(spec: NodeSpec, slot: Slot | None) -> dict[str, object] | None:
    if slot is None:
        return None
    return {
        "machineId": spec.identity.machine_id if spec.identity else None,
        "gpu": encode(slot.gpu),
        "nvme": encode(slot.nvme),
        "nic": encode(slot.nic),
        "numa": slot.numa,
        "cpus": slot.cpus,
        "memoryGiB": slot.memory_gib,
    }
