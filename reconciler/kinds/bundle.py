"""Bundle: software of the platform in versions, staged on nodes and chosen by allocations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from operator import attrgetter

from reconciler.kinds.checks.findings import Path, finding, unsafe_path
from reconciler.kinds.node_family import NODE_FAMILIES
from reconciler.kinds.plain import NO_HOST_EFFECTS, everything_is_supported
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.host.capacity import RuntimeNeed
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "Bundle"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.displayName": "none",
    "spec.supportLevel": "none",
    "spec.versions": "none",
    "spec.versions[].install": "immutable once recorded",
}


NUMBERS = re.compile(r"\d{1,6}(\.\d{1,6}){0,3}")


class SupportLevel(StrEnum):
    SUPPORTED = "supported"
    PREVIEW = "preview"
    DEPRECATED = "deprecated"


class VersionState(StrEnum):
    ACTIVE = "active"
    DEPRECATED = "deprecated"
    WITHDRAWN = "withdrawn"


class GpuVendor(StrEnum):
    """`none`: it needs no GPU."""

    NVIDIA = "nvidia"
    AMD = "amd"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatible:
    gpu_vendor: GpuVendor | None = None
    families: tuple[str, ...] = ()
    driver_min: str | None = None
    cuda: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallSpec:
    method: str
    python: str
    lock: str
    lock_digest: str
    index: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    imports: tuple[str, ...] = ()
    gpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOn:
    families: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """`compatible` None: nobody knows what it runs on, which only the Policy may let pass."""

    version: str
    compatible: Compatible | None = None
    install: InstallSpec | None = None
    verify: Verify = field(default_factory=Verify)
    stage_on: StageOn = field(default_factory=StageOn)
    state: VersionState = VersionState.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSpec:
    display_name: str
    support_level: SupportLevel
    versions: tuple[Version, ...]

    def needs(self, name: str, *, may_be_unknown: bool) -> Mapping[str, RuntimeNeed]:
        """By version, what it runs on; any active version of that may be named."""
        alone = {
            one.version: RuntimeNeed(
                bundle=name,
                version=one.version,
                vendor=fits.gpu_vendor.value if fits.gpu_vendor else "",
                families=fits.families,
                driver_min=fits.driver_min or "",
                cuda=fits.cuda or "",
                may_be_unknown=may_be_unknown,
            )
            for one in self.versions
            for fits in [one.compatible or Compatible()]
        }
        active = [one.version for one in self.versions if one.state is VersionState.ACTIVE]
        return {
            version: replace(need, others=tuple(alone[one] for one in active if one != version))
            for version, need in alone.items()
        }


def parse(spec: Mapping[str, object], name: str) -> BundleSpec:
    bundle = decode(BundleSpec, spec)
    ordered = sorted(bundle.versions, key=attrgetter("version"))
    return replace(bundle, versions=tuple(map(_in_order, ordered)))


BUNDLES = TypedSpecs(kind="bundle", parse=parse)


def refs(resource: Resource[BundleSpec]) -> Iterator[Reference]:
    for one in resource.spec.versions:
        path: Path = ("spec", "versions", one.version)
        for family in one.compatible.families if one.compatible else ():
            place = (*path, "compatible", "families", family)
            yield Reference(ref=Ref("node_family", "", family), path=place)
        for family in one.stage_on.families:
            place = (*path, "stageOn", "families", family)
            yield Reference(ref=Ref("node_family", "", family), path=place)
        for node in one.stage_on.nodes:
            yield Reference(ref=Ref("node", "", node), path=(*path, "stageOn", "nodes", node))


RESERVED = frozenset({"current", "tmp"})
"""Names that folders beside a version have, or might be taken for."""


def check(resource: Resource[BundleSpec], desired: Desired) -> Iterator[Problem]:
    yield from _check_names(resource)
    for one in resource.spec.versions:
        path: Path = ("spec", "versions", one.version)
        yield from _check_install(resource, one, path, desired)
        yield from _check_vendor(resource, one, path, desired)
        yield from _check_figures(resource, one, path)
        yield from _check_stage(resource, one, path)


unsupported = everything_is_supported
needs, basis, steps, expected = NO_HOST_EFFECTS


def _in_order(one: Version) -> Version:
    fits, stage = one.compatible, one.stage_on
    return replace(
        one,
        compatible=fits and replace(fits, families=tuple(sorted(fits.families))),
        verify=replace(one.verify, imports=tuple(sorted(one.verify.imports))),
        stage_on=StageOn(families=tuple(sorted(stage.families)), nodes=tuple(sorted(stage.nodes))),
    )


def _check_names(resource: Resource[BundleSpec]) -> Iterator[Problem]:
    """A version is a folder beside the others, and on some file systems case makes no name."""
    seen: dict[str, str] = {}
    for one in resource.spec.versions:
        path: Path = ("spec", "versions", one.version, "version")
        same = one.version.lower()
        if same in RESERVED:
            hint = f"reserved are {', '.join(sorted(RESERVED))}"
            yield finding(resource, path, "bundle_unsound", f"{one.version} is reserved", hint)
        elif same in seen:
            message = f"{one.version} and {seen[same]} differ by case alone"
            yield finding(resource, path, "bundle_unsound", message, "give it a name of its own")
        seen.setdefault(same, one.version)


def _check_figures(resource: Resource[BundleSpec], one: Version, path: Path) -> Iterator[Problem]:
    """What is held against what hosts show is counted in numbers."""
    fits = one.compatible or Compatible()
    for key, text in (("driverMin", fits.driver_min), ("cuda", fits.cuda)):
        if text is not None and not NUMBERS.fullmatch(text):
            message = f"{text} is no version of numbers and points"
            place = (*path, "compatible", key)
            yield finding(resource, place, "bundle_unsound", message, "write it as 550.54")


def _check_install(
    resource: Resource[BundleSpec], one: Version, path: Path, desired: Desired
) -> Iterator[Problem]:
    install, indexes = one.install, desired.settings.index
    if install and (why := unsafe_path(install.lock, absolute=False)):
        place = (*path, "install", "lock")
        yield finding(resource, place, "path_unsafe", why, "give a path inside the repository")
    if install and install.index and install.index not in indexes:
        message = f"gpuaas.yaml has no index named {install.index}"
        hint = f"known: {', '.join(sorted(indexes)) or 'none'}"
        place = (*path, "install", "index")
        yield finding(resource, place, "dangling_reference", message, hint)


def _check_vendor(
    resource: Resource[BundleSpec], one: Version, path: Path, desired: Desired
) -> Iterator[Problem]:
    vendor = one.compatible.gpu_vendor if one.compatible else None
    if vendor is GpuVendor.NONE and one.verify.gpu:
        message = "it needs no GPU, and is verified with one"
        place = (*path, "verify", "gpu")
        yield finding(resource, place, "bundle_unsound", message, "change one of the two")
    for name in one.compatible.families if one.compatible else ():
        family = NODE_FAMILIES.get(desired, name)
        if family and vendor not in (None, GpuVendor.NONE, family.spec.gpu.vendor):
            message = f"family {name} has GPUs of {family.spec.gpu.vendor}, not of {vendor}"
            place = (*path, "compatible", "families", name)
            yield finding(resource, place, "bundle_unsound", message, "change one of the two")


def _check_stage(resource: Resource[BundleSpec], one: Version, path: Path) -> Iterator[Problem]:
    runs_on = one.compatible.families if one.compatible else ()
    for name in one.stage_on.families:
        if runs_on and name not in runs_on:
            message = f"it would be staged on family {name}, on which it does not run"
            hint = f"compatible families: {', '.join(runs_on)}"
            place = (*path, "stageOn", "families", name)
            yield finding(resource, place, "bundle_unsound", message, hint)
