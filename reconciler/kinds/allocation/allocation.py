"""Allocation: the compute that a project asks for, as an outcome (a SKU), never as a host.

What it looks like on its host is `allocation_host`; who may log in is `access`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.kinds.access.leave import OPEN_ENDED
from reconciler.kinds.allocation.host import basis, expected, steps
from reconciler.kinds.allocation.runtime import runtime_needs
from reconciler.kinds.allocation.spec import AllocationSpec, parse
from reconciler.kinds.bundle import BUNDLES
from reconciler.kinds.checks.findings import Path, finding, twice, unreal_times
from reconciler.kinds.plain import everything_is_supported
from reconciler.kinds.project import PROJECTS, ProjectSpec
from reconciler.kinds.sku import SKUS
from reconciler.kinds.storage_class import STORAGE_CLASSES
from reconciler.model.host.capacity import Need, Shape, StorageNeed
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

__all__ = [
    "FIELD_RULES",
    "NAME",
    "AllocationSpec",
    "basis",
    "check",
    "expected",
    "needs",
    "parse",
    "refs",
    "steps",
    "unsupported",
]

NAME = "Allocation"

unsupported = everything_is_supported

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.sku": "replace",
    "spec.owner": "live",
    "spec.access": "live",
    "spec.storage": "live",
    "spec.runtimes": "live",
    "spec.restart.generation": "restart",
    "spec.restart.reason": "none",
    "spec.expiresAt": "live",
    "spec.waitUntil": "none",
    "spec.protect": "live",
    "spec.node": "replace",
}


def refs(resource: Resource[AllocationSpec]) -> Iterator[Reference]:
    spec, project = _spec(resource), resource.ref.project
    yield Reference(ref=Ref("project", "", project), path=("metadata", "project"))
    yield Reference(ref=Ref("sku", "", spec.sku), path=("spec", "sku"))
    yield Reference(ref=Ref("user", "", spec.owner), path=("spec", "owner"))
    for user in spec.access:
        if user != spec.owner:
            yield Reference(ref=Ref("user", "", user), path=("spec", "access", user))
    for attachment in spec.storage:
        path = ("spec", "storage", attachment.name, "name")
        yield Reference(ref=Ref("storage", project, attachment.name), path=path)
    for bundle in sorted({runtime.bundle for runtime in spec.runtimes}):
        yield Reference(ref=Ref("bundle", "", bundle), path=("spec", "runtimes"))
    if spec.node is not None:
        yield Reference(ref=Ref("node", "", spec.node), path=("spec", "node"))


def check(resource: Resource[AllocationSpec], desired: Desired) -> Iterator[Problem]:
    """Check members, entitlements, lease and mounts.

    A deprecated SKU is the planner's question: what runs on one may stay.
    """
    project = PROJECTS.get(desired, resource.ref.project)
    if project is not None:
        yield from _check_members(resource, project)
        yield from _check_entitled(resource, project)
        yield from _check_lease(resource, project)
    spec = _spec(resource)
    times: list[tuple[Path, str | None]] = [
        (("spec", "expiresAt"), spec.expires_at),
        (("spec", "waitUntil"), spec.wait_until),
    ]
    yield from unreal_times(resource, times)
    yield from _check_mounts(resource)
    yield from _check_runtimes(resource, desired)


def needs(resource: Resource[AllocationSpec], desired: Desired) -> Need | None:
    """What it needs; None while its SKU or its project cannot be read."""
    spec = _spec(resource)
    sku = SKUS.get(desired, spec.sku)
    project = PROJECTS.get(desired, resource.ref.project)
    if sku is None or project is None:
        return None
    shape, slots = sku.spec.shape, sku.spec.slots
    if shape is Shape.BAREMETAL:
        slots = 0
    if slots is None:
        return None
    return Need(
        ref=resource.ref,
        sku=spec.sku,
        shape=shape,
        slots=slots,
        families=sku.spec.families,
        isolation=sku.spec.isolation,
        min_cpus_per_slot=sku.spec.min_cpus_per_slot,
        min_memory_gib_per_slot=sku.spec.min_memory_gib_per_slot,
        rdma=sku.spec.rdma,
        tenant=project.spec.tenant,
        project=resource.ref.project,
        pin=spec.node or "",
        storage=tuple(_storage_needs(resource, desired)),
        runtimes=tuple(runtime_needs(resource, desired)),
    )


def _storage_needs(resource: Resource[AllocationSpec], desired: Desired) -> Iterator[StorageNeed]:
    """The needs of storages that can be read; the planner reports the others as missing."""
    for one in _spec(resource).storage:
        storage = desired.resources.get(Ref("storage", resource.ref.project, one.name))
        found = STORAGE_CLASSES.get(desired, storage.spec.class_) if storage else None
        if storage and found:
            yield found.spec.need(found.ref.name, one.name, storage.spec.node or "")


def _spec(resource: Resource[AllocationSpec]) -> AllocationSpec:
    spec: AllocationSpec = resource.spec
    return spec


def _check_members(
    resource: Resource[AllocationSpec], project: Resource[ProjectSpec]
) -> Iterator[Problem]:
    spec = _spec(resource)
    members = sorted(member.user for member in project.spec.members)
    asked: list[tuple[str, Path]] = [(spec.owner, ("spec", "owner"))]
    asked += [(user, ("spec", "access", user)) for user in spec.access if user != spec.owner]
    for user, path in asked:
        if user not in members:
            message = f"{user} is no member of project {project.ref.name}"
            hint = f"its members are {', '.join(members)}; more are added in {project.file}"
            yield finding(resource, path, "not_a_member", message, hint)


def _check_entitled(
    resource: Resource[AllocationSpec], project: Resource[ProjectSpec]
) -> Iterator[Problem]:
    wanted, entitled = _spec(resource).sku, project.spec.entitlements.skus
    if wanted not in entitled:
        message = f"project {project.ref.name} is not entitled to SKU {wanted}"
        hint = f"entitled to {', '.join(entitled) or 'nothing'}; an operator adds to {project.file}"
        yield finding(resource, ("spec", "sku"), "not_entitled", message, hint)


def _check_lease(
    resource: Resource[AllocationSpec], project: Resource[ProjectSpec]
) -> Iterator[Problem]:
    """How far ahead an end may lie depends on the time of the create: the planner's question."""
    lease = project.spec.lease
    if _spec(resource).expires_at == OPEN_ENDED and not (lease and lease.may_be_open_ended):
        message = f"project {project.ref.name} may not keep allocations without an end"
        hint = "state a time, or leave expiresAt out to get the project's default"
        yield finding(resource, ("spec", "expiresAt"), "lease_too_long", message, hint)


def _check_runtimes(resource: Resource[AllocationSpec], desired: Desired) -> Iterator[Problem]:
    """Each a version that its bundle has."""
    runtimes = _spec(resource).runtimes
    path: Path = ("spec", "runtimes")
    for one in runtimes:
        bundle = BUNDLES.get(desired, one.bundle)
        versions = [each.version for each in bundle.spec.versions] if bundle else []
        if bundle and one.version not in versions:
            message = f"bundle {one.bundle} has no version {one.version}"
            hint = f"it has {', '.join(versions)}"
            yield finding(resource, path, "bundle_version_unknown", message, hint)


def _check_mounts(resource: Resource[AllocationSpec]) -> Iterator[Problem]:
    storage = _spec(resource).storage
    places = [(one.mount_path.rstrip("/"), ("spec", "storage", one.name)) for one in storage]
    for path, second, first in twice(places):
        message = f"{first[-1]} and {second[-1]} are both mounted at {path}"
        hint = "give each attachment a mountPath of its own"
        yield finding(resource, second, "mount_path_unsound", message, hint)
    for outer, _ in places:
        for inner, place in places:
            if inner.startswith(f"{outer}/"):
                message = f"{inner} lies inside of {outer}, where another storage is mounted"
                hint = "mount them side by side"
                yield finding(resource, place, "mount_path_unsound", message, hint)
