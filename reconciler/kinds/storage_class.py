"""StorageClass: a backend for storage, and what it can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from operator import itemgetter

from reconciler.kinds.checks.findings import (
    check_prices,
    finding,
    same_moment,
    unsafe_path,
    unsound_texts,
)
from reconciler.kinds.plain import NO_HOST_EFFECTS, everything_is_supported
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode, encode
from reconciler.model.formats import why_no_host
from reconciler.model.host import layout
from reconciler.model.host.capacity import Isolation, StorageNeed
from reconciler.model.moment import parse_moment
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource
from reconciler.model.state.volume import BackendWord

NAME = "StorageClass"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.directory": "refuse while used",
    "spec.loop": "refuse while used",
    "spec.nfs": "refuse while used",
    "spec.accessModes": "none",
    "spec.maxAttachments": "none",
    "spec.available": "none",
    "spec.default": "none",
    "spec.prices": "none",
    "spec.prices[]": "immutable once recorded",
}

BACKENDS = tuple(word.value for word in BackendWord)
NOT_PLACES = (
    *("/etc", "/proc", "/sys", "/dev", "/run", "/usr", "/boot", layout.HOMES),
    *(layout.DATA, layout.MOUNTS, "/tmp", "/var/tmp"),
)
"""Folders of a host's own, of tenants, and tidied up by hosts: these refuse them once more."""


class Filesystem(StrEnum):
    EXT4 = "ext4"
    XFS = "xfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """`shared`: the same folder on every node."""

    path: str
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    path: str
    filesystem: Filesystem = Filesystem.EXT4


@dataclass(frozen=True, slots=True, kw_only=True)
class Nfs:
    server: str
    export: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """Everywhere if both are empty."""

    nodes: tuple[str, ...] = ()
    families: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GibPrice:
    from_: str
    per_gib_month: str
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClassSpec:
    """Exactly one of `directory`, `loop` and `nfs` is stated."""

    access_modes: tuple[str, ...]
    directory: Directory | None = None
    loop: Loop | None = None
    nfs: Nfs | None = None
    max_attachments: int = 1
    available: Available = field(default_factory=Available)
    default: bool = False
    prices: tuple[GibPrice, ...] = ()

    @property
    def backend(self) -> Mapping[str, object]:
        """Its one backend, by its name."""
        return {word: encode(one) for word in BACKENDS if (one := getattr(self, word)) is not None}

    @property
    def reaches_all(self) -> bool:
        """Whether each node of the class has the same data (rule 14)."""
        return self.nfs is not None or (self.directory is not None and self.directory.shared)

    @property
    def isolation(self) -> tuple[Isolation, ...]:
        """Of nodes that can use it: what stands for a host is a folder, and mounts nothing."""
        if self.directory is not None:
            return (Isolation.DIRECTORY, Isolation.ACCOUNT)
        return (Isolation.ACCOUNT,)

    def need(self, class_name: str, storage: str, node: str) -> StorageNeed:
        """Where a storage of the class can be attached; `node` is the only one, if there is one."""
        return StorageNeed(
            name=storage,
            class_name=class_name,
            isolation=self.isolation,
            node=node,
            nodes=self.available.nodes,
            families=self.available.families,
        )


def parse(spec: Mapping[str, object], name: str) -> StorageClassSpec:
    storage = decode(StorageClassSpec, spec)
    nfs, where = storage.nfs, storage.available
    return replace(
        storage,
        access_modes=tuple(sorted(storage.access_modes)),
        nfs=nfs and replace(nfs, options=tuple(sorted(nfs.options))),
        available=Available(
            nodes=tuple(sorted(where.nodes)), families=tuple(sorted(where.families))
        ),
        prices=tuple(replace(p, from_=same_moment(p.from_) or p.from_) for p in storage.prices),
    )


STORAGE_CLASSES = TypedSpecs(kind="storage_class", parse=parse)


def refs(resource: Resource[StorageClassSpec]) -> Iterator[Reference]:
    where: Available = resource.spec.available
    for node in where.nodes:
        yield Reference(ref=Ref("node", "", node), path=("spec", "available", "nodes", node))
    for family in where.families:
        path = ("spec", "available", "families", family)
        yield Reference(ref=Ref("node_family", "", family), path=path)


def check(resource: Resource[StorageClassSpec], desired: Desired) -> Iterator[Problem]:
    yield from _check_backend(resource)
    yield from _check_paths(resource)
    nfs = resource.spec.nfs
    server = (("spec", "nfs", "server"), nfs.server if nfs else None)
    yield from unsound_texts(resource, [server], why_no_host)
    yield from check_prices(resource, [price.from_ for price in resource.spec.prices])


unsupported = everything_is_supported
needs, basis, steps, expected = NO_HOST_EFFECTS


def price_in_force(spec: StorageClassSpec, now: datetime) -> GibPrice | None:
    """The price that counts now; one that is announced does not yet."""
    moments = ((parse_moment(price.from_), price) for price in spec.prices)
    past = [(moment, price) for moment, price in moments if moment and moment <= now]
    return max(past, key=itemgetter(0))[1] if past else None


def _check_backend(resource: Resource[StorageClassSpec]) -> Iterator[Problem]:
    stated = [name for name in BACKENDS if getattr(resource.spec, name) is not None]
    if not stated:
        message = f"no backend: one of {', '.join(BACKENDS)} is needed"
        yield finding(resource, ("spec",), "field_missing", message, "state one of them")
    for extra in stated[1:]:
        message = f"{extra} stands beside {stated[0]}: a class has one backend"
        yield finding(resource, ("spec", extra), "field_forbidden", message, "make two classes")


def _check_paths(resource: Resource[StorageClassSpec]) -> Iterator[Problem]:
    spec: StorageClassSpec = resource.spec
    paths = (
        (("spec", "directory", "path"), spec.directory and spec.directory.path),
        (("spec", "loop", "path"), spec.loop and spec.loop.path),
        (("spec", "nfs", "export"), spec.nfs and spec.nfs.export),
    )
    for path, text in paths:
        if text and (why := unsafe_path(text, absolute=True)):
            yield finding(resource, path, "path_unsafe", why, "give an absolute path without `..`")
        elif text and not all(text.split("/")[1:]):
            message = f"{text} is not how a folder is spelled"
            hint = "one slash before each name, and none at the end"
            yield finding(resource, path, "path_unsafe", message, hint)
        elif text and path[1] != "nfs" and (system := _of_the_system(text)):
            message = f"{text} lies in {system}, which is no place for anybody's data"
            yield finding(resource, path, "path_unsafe", message, "take a folder of its own")


def _of_the_system(path: str) -> str:
    """Where hosts refuse to lay volumes."""
    folders = (place for place in NOT_PLACES if f"{path}/".startswith(f"{place}/"))
    return next(folders, "")
