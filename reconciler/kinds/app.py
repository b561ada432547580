"""App: an application that runs on allocations of its project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from operator import attrgetter

from reconciler.kinds.app_manifest import APP_MANIFESTS
from reconciler.kinds.checks.findings import finding
from reconciler.kinds.plain import NO_HOST_EFFECTS
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "App"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.manifest": "refuse",
    "spec.version": "restart",
    "spec.members": "live",
    "spec.params": "restart",
    "spec.desired": "live",
}


class MemberRole(StrEnum):
    CONTROLLER = "controller"
    WORKER = "worker"
    HEAD = "head"
    NODE = "node"


class DesiredState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppMember:
    allocation: str
    role: MemberRole


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSpec:
    manifest: str
    version: str
    members: tuple[AppMember, ...]
    params: Mapping[str, str] = field(default_factory=dict)
    desired: DesiredState = DesiredState.RUNNING


def parse(spec: Mapping[str, object], name: str) -> AppSpec:
    app = decode(AppSpec, spec)
    return replace(app, members=tuple(sorted(app.members, key=attrgetter("allocation"))))


APPS = TypedSpecs(kind="app", parse=parse)


def refs(resource: Resource[AppSpec]) -> Iterator[Reference]:
    spec: AppSpec = resource.spec
    project = resource.ref.project
    yield Reference(ref=Ref("project", "", project), path=("metadata", "project"))
    yield Reference(ref=Ref("app_manifest", "", spec.manifest), path=("spec", "manifest"))
    for member in spec.members:
        path = ("spec", "members", member.allocation, "allocation")
        yield Reference(ref=Ref("allocation", project, member.allocation), path=path)


def check(resource: Resource[AppSpec], desired: Desired) -> Iterator[Problem]:
    spec: AppSpec = resource.spec
    manifest = APP_MANIFESTS.get(desired, spec.manifest)
    if manifest and manifest.spec.version != spec.version:
        message = f"{spec.manifest} is at version {manifest.spec.version}, not {spec.version}"
        hint = f"name version {manifest.spec.version}"
        yield finding(resource, ("spec", "version"), "dangling_reference", message, hint)


def unsupported(resource: Resource[AppSpec]) -> str:
    return "App"


needs, basis, steps, expected = NO_HOST_EFFECTS
