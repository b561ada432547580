"""AppManifest: an application of the catalogue, what it starts and what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from operator import attrgetter

from reconciler.kinds.plain import NO_HOST_EFFECTS
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.host.capacity import Shape
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "AppManifest"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.displayName": "none",
    "spec.version": "refuse while used",
    "spec.artifactKind": "refuse while used",
    "spec.artifactRef": "refuse while used",
    "spec.compatibility": "new placements",
    "spec.runtimeProfile": "refuse while used",
    "spec.active": "none",
}


class ArtifactKind(StrEnum):
    OCI = "oci"
    LAUNCHABLE = "launchable"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    requires_capacity_shape: tuple[Shape, ...] = (Shape.BAREMETAL, Shape.GPU_SLICE)
    min_gpu_count: int = 1
    requires_exclusive_node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    name: str
    port: int
    protocol: str = "tcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    cpus: int | None = None
    memory_gib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeProfile:
    image: str | None = None
    ports: tuple[Port, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppManifestSpec:
    display_name: str
    version: str
    artifact_kind: ArtifactKind
    artifact_ref: str
    compatibility: Compatibility = field(default_factory=Compatibility)
    runtime_profile: RuntimeProfile = field(default_factory=RuntimeProfile)
    active: bool = True


def parse(spec: Mapping[str, object], name: str) -> AppManifestSpec:
    manifest = decode(AppManifestSpec, spec)
    needed, profile = manifest.compatibility, manifest.runtime_profile
    shapes = tuple(sorted(needed.requires_capacity_shape))
    return replace(
        manifest,
        compatibility=replace(needed, requires_capacity_shape=shapes),
        runtime_profile=replace(
            profile, ports=tuple(sorted(profile.ports, key=attrgetter("name")))
        ),
    )


APP_MANIFESTS = TypedSpecs(kind="app_manifest", parse=parse)


def refs(resource: Resource[AppManifestSpec]) -> tuple[Reference, ...]:
    return ()


def check(resource: Resource[AppManifestSpec], desired: Desired) -> tuple[Problem, ...]:
    return ()


def unsupported(resource: Resource[AppManifestSpec]) -> str:
    """Nothing starts one: it serves apps alone."""
    return NAME


needs, basis, steps, expected = NO_HOST_EFFECTS
