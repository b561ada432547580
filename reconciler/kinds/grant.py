"""Grant: access of one person to one allocation for a while, with keys that they own.

It has no files of its own: the key file belongs to the allocation, which `access` works out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from ipaddress import ip_network
from typing import Any

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.checks.findings import finding, same_moment, unreal_times
from reconciler.kinds.fleet_rules import forbids_open_ends, policy_in
from reconciler.kinds.plain import NO_HOST_EFFECTS
from reconciler.kinds.project import PROJECTS
from reconciler.kinds.sku import SKUS
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.kinds.user import USERS
from reconciler.model.codec import decode
from reconciler.model.host.capacity import Isolation, Shape
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "Grant"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.allocation": "refuse",
    "spec.user": "refuse",
    "spec.keys": "live",
    "spec.privilege": "live",
    "spec.expiresAt": "live",
    "spec.reason": "live",
    "spec.endSessions": "live",
    "spec.options": "live",
}

OPEN_ENDED = "none"


class Privilege(StrEnum):
    LOGIN = "login"
    SUDO = "sudo"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantOptions:
    """`from_` empty: from anywhere."""

    from_: tuple[str, ...] = ()
    forwarding: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantSpec:
    """`keys` empty: all keys of the user. `expires_at` is a time or `none`."""

    allocation: str
    user: str
    expires_at: str
    reason: str
    keys: tuple[str, ...] = ()
    privilege: Privilege = Privilege.LOGIN
    end_sessions: bool = True
    options: GrantOptions = field(default_factory=GrantOptions)


def parse(spec: Mapping[str, Any], name: str) -> GrantSpec:
    end, options = spec["expiresAt"], spec.get("options", {})
    stated = {
        **spec,
        "expiresAt": same_moment(end) or end,
        "keys": sorted(spec.get("keys", ())),
        "options": {**options, "from": sorted(options.get("from", ()))},
    }
    return decode(GrantSpec, stated)


GRANTS = TypedSpecs(kind="grant", parse=parse)


def refs(resource: Resource[GrantSpec]) -> Iterator[Reference]:
    spec: GrantSpec = resource.spec
    project = resource.ref.project
    yield Reference(ref=Ref("project", "", project), path=("metadata", "project"))
    allocation = Ref("allocation", project, spec.allocation)
    yield Reference(ref=allocation, path=("spec", "allocation"))
    yield Reference(ref=Ref("user", "", spec.user), path=("spec", "user"))


def check(resource: Resource[GrantSpec], desired: Desired) -> Iterator[Problem]:
    yield from _check_user(resource, desired)
    yield from _check_keys(resource, desired)
    yield from _check_end(resource, desired)
    yield from _check_privilege(resource, desired)
    for network in resource.spec.options.from_:
        if not _is_network(network):
            message = f"{network} is no network"
            path = ("spec", "options", "from", network)
            yield finding(resource, path, "value_pattern", message, "as in 10.0.0.0/8")


def unsupported(resource: Resource[GrantSpec]) -> str:
    """A session ends with the key that it was opened with, whichever way that went."""
    spec: GrantSpec = resource.spec
    stated = {
        "privilege sudo": spec.privilege is Privilege.SUDO,
        "endSessions: false": not spec.end_sessions,
    }
    return ", ".join(word for word, is_stated in stated.items() if is_stated)


needs, basis, steps, expected = NO_HOST_EFFECTS


def _check_user(resource: Resource[GrantSpec], desired: Desired) -> Iterator[Problem]:
    """A member, and one who needs the grant."""
    spec: GrantSpec = resource.spec
    project = PROJECTS.get(desired, resource.ref.project)
    members = {member.user for member in project.spec.members} if project else {spec.user}
    if project and spec.user not in members:
        message = f"{spec.user} is no member of project {project.ref.name}"
        hint = f"members: {', '.join(sorted(members))}; a maintainer adds one ({project.file})"
        yield finding(resource, ("spec", "user"), "not_a_member", message, hint)
    allocation = ALLOCATIONS.get(desired, spec.allocation, resource.ref.project)
    if allocation and spec.user in allocation.spec.access:
        message = f"{spec.user} has access to {spec.allocation} for its whole life already"
        hint = "remove the grant, or take them out of the allocation's access"
        yield finding(resource, ("spec", "user"), "grant_redundant", message, hint)


def _check_keys(resource: Resource[GrantSpec], desired: Desired) -> Iterator[Problem]:
    spec: GrantSpec = resource.spec
    user = USERS.get(desired, spec.user)
    ids = [key.id for key in user.spec.keys] if user else list(spec.keys)
    for key in spec.keys:
        if key not in ids:
            message = f"{spec.user} has no key {key}"
            hint = f"keys of {spec.user}: {', '.join(ids) or 'none'}"
            yield finding(resource, ("spec", "keys", key), "dangling_reference", message, hint)


def _check_end(resource: Resource[GrantSpec], desired: Desired) -> Iterator[Problem]:
    """How far an end may lie ahead depends on the time of the plan, and is not asked here."""
    spec: GrantSpec = resource.spec
    path = ("spec", "expiresAt")
    if spec.expires_at == OPEN_ENDED and forbids_open_ends(desired):
        message = "the Policy allows no grant without an end"
        hint = f"state a time, at most {policy_in(desired).grant.max_days} days ahead"
        yield finding(resource, path, "grant_too_long", message, hint)
    yield from unreal_times(resource, [(path, spec.expires_at)])


def _check_privilege(resource: Resource[GrantSpec], desired: Desired) -> Iterator[Problem]:
    """Root only where nobody else is: a whole node whose SKU says so, or a virtual machine."""
    spec: GrantSpec = resource.spec
    allocation = ALLOCATIONS.get(desired, spec.allocation, resource.ref.project)
    sku = SKUS.get(desired, allocation.spec.sku) if allocation else None
    if spec.privilege is not Privilege.SUDO or sku is None:
        return
    alone = sku.spec.shape is Shape.BAREMETAL or set(sku.spec.isolation) == {Isolation.VM}
    if not (alone and sku.spec.root_access):
        message = f"SKU {sku.ref.name} gives no root"
        hint = "sudo needs a whole node or a virtual machine, and a SKU with rootAccess: true"
        yield finding(resource, ("spec", "privilege"), "sudo_needs_whole_node", message, hint)


def _is_network(text: str) -> bool:
    try:
        return ip_network(text, strict=False) is not None
    except ValueError:
        return False
