"""Project: people who share a budget; what they may hold and use, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from operator import attrgetter

from reconciler.kinds.checks.findings import finding
from reconciler.kinds.fleet_rules import POLICY
from reconciler.kinds.plain import NO_HOST_EFFECTS, everything_is_supported
from reconciler.kinds.policy import POLICIES
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import KIND_WORDS, Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "Project"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.displayName": "none",
    "spec.tenant": "refuse while anything lives",
    "spec.members": "live",
    "spec.quota": "none",
    "spec.entitlements": "none",
    "spec.lease": "none",
    "spec.costCenter": "none",
    "spec.budget": "none",
    "spec.gid": "refuse",
}


class Role(StrEnum):
    OWNER = "owner"
    MAINTAINER = "maintainer"
    MEMBER = "member"
    VIEWER = "viewer"


class AtLimit(StrEnum):
    WARN = "warn"
    BLOCK_NEW = "block_new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    user: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    gpus: int
    allocations: int = 16
    storage_gib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entitlements:
    """What is not listed may not be used."""

    skus: tuple[str, ...] = ()
    storage_classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """None: the Policy's value counts."""

    default_hours: int | None = None
    max_hours: int | None = None
    may_be_open_ended: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    monthly: str
    currency: str
    at_limit: AtLimit = AtLimit.WARN


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSpec:
    tenant: str
    members: tuple[Member, ...]
    quota: Quota
    display_name: str = ""
    entitlements: Entitlements = field(default_factory=Entitlements)
    lease: Lease = field(default_factory=Lease)
    cost_center: str | None = None
    budget: Budget | None = None
    gid: int | None = None


def parse(spec: Mapping[str, object], name: str) -> ProjectSpec:
    project = decode(ProjectSpec, spec)
    entitled = project.entitlements
    return replace(
        project,
        display_name=project.display_name or name,
        members=tuple(sorted(project.members, key=attrgetter("user"))),
        entitlements=Entitlements(
            skus=tuple(sorted(entitled.skus)),
            storage_classes=tuple(sorted(entitled.storage_classes)),
        ),
    )


PROJECTS = TypedSpecs(kind="project", parse=parse)


def refs(resource: Resource[ProjectSpec]) -> Iterator[Reference]:
    spec: ProjectSpec = resource.spec
    for member in spec.members:
        path = ("spec", "members", member.user, "user")
        yield Reference(ref=Ref("user", "", member.user), path=path)
    for sku in spec.entitlements.skus:
        yield Reference(ref=Ref("sku", "", sku), path=("spec", "entitlements", "skus", sku))
    for name in spec.entitlements.storage_classes:
        path = ("spec", "entitlements", "storageClasses", name)
        yield Reference(ref=Ref("storage_class", "", name), path=path)


def check(resource: Resource[ProjectSpec], desired: Desired) -> Iterator[Problem]:
    spec: ProjectSpec = resource.spec
    if resource.ref.name in KIND_WORDS.values():
        message = f"{resource.ref.name} is the name of a kind: `kind/name` would be ambiguous"
        yield finding(resource, ("metadata", "name"), "name_reserved", message, "take another name")
    if not any(member.role is Role.OWNER for member in spec.members):
        message = "nobody owns this project"
        hint = "give one member the role owner"
        yield finding(resource, ("spec", "members"), "project_without_owner", message, hint)
    yield from _check_tenant(resource, desired)
    yield from _check_lease(resource)


unsupported = everything_is_supported
needs, basis, steps, expected = NO_HOST_EFFECTS


def _check_tenant(resource: Resource[ProjectSpec], desired: Desired) -> Iterator[Problem]:
    spec: ProjectSpec = resource.spec
    path = ("spec", "tenant")
    if found := POLICIES.at(desired, POLICY):
        tenants = found.spec.tenants
        if spec.tenant not in tenants:
            message = f"the Policy knows no tenant `{spec.tenant}`"
            hint = f"known: {', '.join(tenants)}; an operator adds one ({found.file})"
            yield finding(resource, path, "tenant_unknown", message, hint)
    elif POLICY not in desired.frozen and not desired.unread(POLICY):
        message = "there is no Policy named fleet that could list the tenant"
        hint = "an operator writes one: kind: Policy, metadata: {name: fleet}, spec: {tenants: […]}"
        yield finding(resource, path, "policy_unsound", message, hint)


def _check_lease(resource: Resource[ProjectSpec]) -> Iterator[Problem]:
    lease: Lease = resource.spec.lease
    if lease.default_hours and lease.max_hours and lease.default_hours > lease.max_hours:
        message = f"the default of {lease.default_hours} h is longer than {lease.max_hours} h"
        path = ("spec", "lease", "defaultHours")
        yield finding(resource, path, "lease_too_long", message, "raise maxHours or lower it")
