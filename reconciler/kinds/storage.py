"""Storage: durable data of a project, attached to allocations by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from reconciler.kinds.checks.findings import finding
from reconciler.kinds.node.spec import NODES
from reconciler.kinds.plain import NO_HOST_EFFECTS, everything_is_supported
from reconciler.kinds.project import PROJECTS
from reconciler.kinds.storage_class import STORAGE_CLASSES
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "Storage"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.class": "refuse",
    "spec.sizeGiB": "live grow, shrink refuse",
    "spec.accessMode": "change only while detached",
    "spec.onDelete": "live",
    "spec.protect": "live",
    "spec.node": "refuse",
}


class AccessMode(StrEnum):
    SINGLE_WRITER = "single_writer"
    MULTI_READER = "multi_reader"
    MULTI_WRITER = "multi_writer"


class OnDelete(StrEnum):
    KEEP = "keep"
    WIPE = "wipe"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpec:
    class_: str
    size_gib: int
    access_mode: AccessMode = AccessMode.SINGLE_WRITER
    on_delete: OnDelete = OnDelete.KEEP
    protect: bool = True
    node: str | None = None


def parse(spec: Mapping[str, object], name: str) -> StorageSpec:
    return decode(StorageSpec, spec)


STORAGES = TypedSpecs(kind="storage", parse=parse)


def refs(resource: Resource[StorageSpec]) -> Iterator[Reference]:
    spec: StorageSpec = resource.spec
    project = Ref("project", "", resource.ref.project)
    yield Reference(ref=project, path=("metadata", "project"))
    yield Reference(ref=Ref("storage_class", "", spec.class_), path=("spec", "class"))
    if spec.node:
        yield Reference(ref=Ref("node", "", spec.node), path=("spec", "node"))


def check(resource: Resource[StorageSpec], desired: Desired) -> Iterator[Problem]:
    spec: StorageSpec = resource.spec
    project = PROJECTS.get(desired, resource.ref.project)
    entitled: tuple[str, ...] = project.spec.entitlements.storage_classes if project else ()
    if project and spec.class_ not in entitled:
        message = f"project {project.ref.name} is not entitled to class {spec.class_}"
        hint = f"entitled: {', '.join(entitled) or 'none'}; an operator entitles ({project.file})"
        yield finding(resource, ("spec", "class"), "not_entitled", message, hint)
    if found := STORAGE_CLASSES.get(desired, spec.class_):
        yield from _check_class(resource, found, desired)


unsupported = everything_is_supported
needs, basis, steps, expected = NO_HOST_EFFECTS


def _check_class(
    resource: Resource[StorageSpec], found: Resource, desired: Desired
) -> Iterator[Problem]:
    """What the class can do, and where."""
    spec: StorageSpec = resource.spec
    modes: tuple[str, ...] = found.spec.access_modes
    shared, path = spec.access_mode is not AccessMode.SINGLE_WRITER, ("spec", "accessMode")
    if spec.access_mode not in modes:
        message = f"class {spec.class_} does not support {spec.access_mode}"
        hint = f"it supports: {', '.join(modes)}"
        code = "class_cannot_multi_attach" if shared else "document_rejected"
        yield finding(resource, path, code, message, hint)
    elif shared and found.spec.max_attachments == 1:
        message = f"{spec.access_mode} is for several, and class {spec.class_} allows one at a time"
        hint = f"an operator raises maxAttachments ({found.file})"
        yield finding(resource, path, "class_cannot_multi_attach", message, hint)
    node, where = NODES.get(desired, spec.node or ""), found.spec.available
    anywhere = not where.nodes and not where.families
    if node and not (
        anywhere or node.ref.name in where.nodes or node.spec.family in where.families
    ):
        message = f"class {spec.class_} is not available on node {spec.node}"
        hint = "pin it to a node of the class, or leave the pin out"
        yield finding(resource, ("spec", "node"), "document_rejected", message, hint)
