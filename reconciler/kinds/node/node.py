"""Node: one host, how it is reached, what it is, and the slots that may be given out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.kinds.access.ssh_key import why_no_host_key
from reconciler.kinds.approval import HOST, approval_digest, approved_names, current_names
from reconciler.kinds.checks.findings import (
    finding,
    unreal_times,
    unsafe_path,
    unsound_texts,
    warning,
)
from reconciler.kinds.checks.overlaps import at_slot, check_overlaps
from reconciler.kinds.node.host import basis, expected, steps
from reconciler.kinds.node.spec import AdminState, Approval, NodeSpec, read_node
from reconciler.kinds.node.wiping import check_wiping
from reconciler.kinds.node_family import NODE_FAMILIES
from reconciler.kinds.plain import needs
from reconciler.model.formats import why_no_card, why_no_host
from reconciler.model.host.capacity import Isolation
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

__all__ = [
    "FIELD_RULES",
    "HOST",
    "NAME",
    "approval_digest",
    "approved_names",
    "basis",
    "check",
    "expected",
    "needs",
    "parse",
    "refs",
    "steps",
    "unsupported",
]

NAME = "Node"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.address": "live",
    "spec.publicAddress": "live",
    "spec.ssh": "live",
    "spec.identity": "approval falls",
    "spec.family": "approval falls",
    "spec.isolation": "refuse while claims live",
    "spec.sharing": "new placements",
    "spec.shapes": "approval falls",
    "spec.root": "refuse",
    "spec.reserve": "restart of none, checked",
    "spec.admin": "live",
    "spec.slots": "approval falls; refuse while claimed",
    "spec.slots[].disabled": "live",
    "spec.approvals": "none",
    "spec.fabric": "approval falls",
    "spec.vm": "new VMs",
}


def parse(spec: Mapping[str, object], name: str) -> NodeSpec:
    return read_node(spec)


def refs(resource: Resource[NodeSpec]) -> Iterator[Reference]:
    spec: NodeSpec = resource.spec
    yield Reference(ref=Ref("node_family", "", spec.family), path=("spec", "family"))
    if spec.admin.attested_by:
        user = Ref("user", "", spec.admin.attested_by)
        yield Reference(ref=user, path=("spec", "admin", "attestedBy"))
    for at, approval in enumerate(spec.approvals):
        user = Ref("user", "", approval.by)
        yield Reference(ref=user, path=("spec", "approvals", at, "by"))


def check(resource: Resource[NodeSpec], desired: Desired) -> Iterator[Problem]:
    yield from _check_isolation(resource)
    yield from _check_root(resource)
    yield from _check_texts(resource)
    yield from _check_admin(resource)
    yield from _check_family(resource, desired)
    yield from check_overlaps(resource, desired)
    yield from check_wiping(resource)
    yield from _check_partitions(resource)
    yield from _check_approvals(resource, desired)


def unsupported(resource: Resource[NodeSpec]) -> str:
    spec: NodeSpec = resource.spec
    if spec.isolation is Isolation.VM:
        return f"isolation {spec.isolation}"
    return ""


def _check_isolation(resource: Resource[NodeSpec]) -> Iterator[Problem]:
    """Which fields go with which isolation: a table, as (field, is stated, wanted by)."""
    spec: NodeSpec = resource.spec
    directory, vm = spec.isolation is Isolation.DIRECTORY, spec.isolation is Isolation.VM
    here = spec.is_local and directory
    table = (
        ("identity", spec.identity is not None, not here, here),
        ("root", spec.root != "/", directory, not directory),
        ("vm", spec.vm is not None, vm, not vm),
        ("fabric", spec.fabric is not None, False, not vm),
    )
    which = f"isolation {spec.isolation}" + (" on this machine" if here else "")
    for name, stated, required, forbidden in table:
        if stated and forbidden:
            message = f"{name} has no meaning for {which}"
            yield finding(resource, ("spec", name), "field_forbidden", message, "take it out")
        if required and not stated:
            message = f"{which} needs {name}"
            yield finding(resource, ("spec",), "field_missing", message, f"state spec.{name}")
    if spec.is_local and not directory:
        message = "this machine itself can only be used with isolation directory"
        yield finding(
            resource, ("spec", "address"), "field_forbidden", message, "state its address"
        )


def _check_root(resource: Resource[NodeSpec]) -> Iterator[Problem]:
    spec: NodeSpec = resource.spec
    path = ("spec", "root")
    why = unsafe_path(spec.root, absolute=not spec.is_local or spec.root.startswith("/"))
    if why:
        hint = "give an absolute path; a relative one counts from gpuaas.yaml, with address local"
        yield finding(resource, path, "path_unsafe", why, hint)


def _check_texts(resource: Resource[NodeSpec]) -> Iterator[Problem]:
    spec: NodeSpec = resource.spec
    hosts = [(("spec", "address"), spec.address)]
    if spec.public_address != spec.address:
        hosts.append((("spec", "publicAddress"), spec.public_address))
    yield from unsound_texts(resource, hosts, why_no_host)
    cards = [(("spec", "slots", one.name, "gpu", "uuid"), one.gpu.uuid) for one in spec.slots]
    yield from unsound_texts(resource, cards, why_no_card)
    pinned = spec.identity.host_keys if spec.identity else ()
    keys = [(("spec", "identity", "hostKeys"), key) for key in pinned]
    yield from unsound_texts(resource, keys, why_no_host_key)


def _check_admin(resource: Resource[NodeSpec]) -> Iterator[Problem]:
    admin = resource.spec.admin
    path = ("spec", "admin")
    if admin.state is not AdminState.ACTIVE and not admin.reason:
        message = f"a host that is {admin.state} needs a reason"
        yield finding(resource, path, "field_missing", message, "state spec.admin.reason")
    if admin.state is AdminState.LOST and not admin.attested_by:
        message = "a host is lost only when somebody attests it"
        yield finding(resource, path, "field_missing", message, "state spec.admin.attestedBy")
    yield from unreal_times(resource, [((*path, "until"), admin.until)])


def _check_family(resource: Resource[NodeSpec], desired: Desired) -> Iterator[Problem]:
    spec: NodeSpec = resource.spec
    family = NODE_FAMILIES.get(desired, spec.family)
    for slot in spec.slots if family else ():
        gpu = family.spec.gpu if family else slot.gpu
        if family and not family.spec.gpu.fits(slot.gpu.model, slot.gpu.memory_mib):
            message = (
                f"slot {slot.name} has {slot.gpu.model}, {slot.gpu.memory_mib} MiB; "
                f"family {spec.family} is {gpu.model}, {gpu.memory_mib} MiB"
            )
            hint = "name the family of this GPU, or make one"
            yield finding(resource, at_slot(slot, "gpu"), "family_mismatch", message, hint)


def _check_partitions(resource: Resource[NodeSpec]) -> Iterator[Problem]:
    spec: NodeSpec = resource.spec
    known = {slot.name for slot in spec.slots}
    for partition in spec.fabric.partitions if spec.fabric else ():
        if unknown := sorted(set(partition.slots) - known):
            path = ("spec", "fabric", "partitions", str(partition.id), "slots")
            message = f"partition {partition.id} names no slot of this node: {', '.join(unknown)}"
            yield finding(resource, path, "dangling_reference", message, _slots_hint(spec))


def _check_approvals(resource: Resource[NodeSpec], desired: Desired) -> Iterator[Problem]:
    spec: NodeSpec = resource.spec
    names = {HOST} | {slot.name for slot in spec.slots}
    for slot in spec.slots:
        if slot.name == HOST:
            message = "no slot may be called host: approvals mean the machine by it"
            yield finding(resource, at_slot(slot, "name"), "name_reserved", message, "as in s0")
    for at, approval in enumerate(spec.approvals):
        path = ("spec", "approvals", at)
        yield from unreal_times(resource, [((*path, "at"), approval.at)])
        if approval.by not in desired.settings.operators:
            message = f"{approval.by} is no operator"
            hint = f"operators (gpuaas.yaml): {', '.join(desired.settings.operators)}"
            yield finding(resource, (*path, "by"), "approval_unsound", message, hint)
        yield from _check_digests(resource, path, approval)
        if unknown := sorted(set(approval.covers) - names):
            message = f"it covers what this node does not have: {', '.join(unknown)}"
            yield finding(
                resource, (*path, "covers"), "approval_unsound", message, _slots_hint(spec)
            )
    yield from _check_stale(resource)


def _check_stale(resource: Resource[NodeSpec]) -> Iterator[Problem]:
    """A warning: nothing new is placed on what it covers, and what runs there goes on."""
    spec: NodeSpec = resource.spec
    approved = approved_names(spec)
    for at, approval in enumerate(spec.approvals):
        left = approved | current_names(spec, approval)
        fallen = [name for name in approval.covers if name not in left]
        if fallen:
            message = f"changed since {approval.by} approved it: {', '.join(fallen)}"
            hint = (
                f"look at the change, then: gpuaas node approve {resource.ref.name} "
                f"(or, by hand, the digest {approval_digest(spec, fallen)})"
            )
            path = ("spec", "approvals", at, "digests" if approval.digests else "digest")
            yield warning(resource, path, "approval_stale", message, hint)


def _check_digests(
    resource: Resource[NodeSpec], path: tuple[str | int, ...], approval: Approval
) -> Iterator[Problem]:
    """One of all that is covered, or one for each of them."""
    given, covers = {one.name for one in approval.digests}, set(approval.covers)
    if approval.digest is None and not given:
        message = "an approval without a digest approves nothing"
        hint = f"let it be written: gpuaas node approve {resource.ref.name}"
        yield finding(resource, path, "field_missing", message, hint)
    elif approval.digest is not None and given:
        message = "digests stand beside the digest of all"
        hint = "leave digests, which lets a change end the approval of one name alone"
        yield finding(resource, (*path, "digest"), "field_forbidden", message, hint)
    elif given and given != covers:
        odd = ", ".join(sorted(given ^ covers))
        message = f"covers and digests differ: {odd}"
        hint = "give each covered name its digest, and no other"
        yield finding(resource, (*path, "digests"), "approval_unsound", message, hint)


def _slots_hint(spec: NodeSpec) -> str:
    return "slots: " + ", ".join(slot.name for slot in spec.slots)
