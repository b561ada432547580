"""The catalogue: bundles that ship with gpuaas, and how a fleet takes one over.

A shipped bundle is a document, and beside it the requirements of each version with their hashes.
What is added are the fleet's own files from then on: nothing that is shipped later changes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reconciler import shipped
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.operations.bundle.bundle import BundleRow, bundles
from reconciler.operations.fleet import Fleet
from reconciler.operations.specs import read_desired
from reconciler.specs.edit.edit import Added, create, create_beside, edit, values_set
from reconciler.specs.git import git
from reconciler.specs.read.suggest import did_you_mean
from reconciler.specs.read.yaml_reader import read_documents

OFFERED = re.compile(r"bundles/(.+)\.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOffer:
    """A bundle that ships with gpuaas; `versions` are those that the fleet does not have."""

    bundle: str
    display_name: str
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    bundles: tuple[BundleRow, ...]
    shipped: tuple[BundleOffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleWish:
    """What is asked of `bundle add`.

    `file` is where the document is to be written, `index` a name in gpuaas.yaml, `commit` whether
    to commit what is written.
    """

    file: Path | None = None
    index: str = ""
    commit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleAdded:
    """What `bundle add` has written.

    `versions` are those that were added, none where the fleet has them all; `locks` their
    requirements. `commit` is empty unless it was committed.
    """

    ref: str
    versions: tuple[str, ...]
    file: str
    line: int
    locks: tuple[str, ...] = ()
    commit: str = ""


def catalogue(fleet: Fleet) -> Catalogue:
    """What the fleet has, and what it could add by one command."""
    rows = bundles(fleet)
    has = {(row.bundle, row.version) for row in rows}
    return Catalogue(bundles=rows, shipped=tuple(_offers(has)))


def shipped_spec(name: str) -> Mapping[str, Any] | None:
    """The spec of a shipped bundle."""
    text = shipped.templates().get(f"bundles/{name}.yaml")
    spec: Mapping[str, object] | None = _value(name, text)["spec"] if text is not None else None
    return spec


def shipped_names() -> tuple[str, ...]:
    found = map(OFFERED.fullmatch, sorted(shipped.templates()))
    return tuple(match[1] for match in found if match)


def add_bundle(fleet: Fleet, name: str, wish: BundleWish) -> BundleAdded:
    """Write a shipped bundle, or its versions that the fleet has not, beside the fleet's specs.

    Raises ProblemError, and then no document was written.
    """
    spec, settings, ref = shipped_spec(name), fleet.settings, Ref("bundle", "", name)
    if spec is None:
        hint = did_you_mean(name, shipped_names())
        raise refuse("not_found", f"no bundle {name} travels with the program", hint)
    if wish.index and wish.index not in settings.index:
        hint = did_you_mean(wish.index, settings.index) or "add it to gpuaas.yaml: index"
        raise refuse("dangling_reference", f"gpuaas.yaml has no index named {wish.index}", hint)
    existing = _existing(read_desired(fleet), ref)
    has = {one.version for one in existing.spec.versions} if existing else set()
    fresh = [one for one in spec["versions"] if one["version"] not in has]
    if existing and not fresh:
        if wish.commit:
            git.insist_on_commit(settings, existing.file)
        return BundleAdded(ref=str(ref), versions=(), file=existing.file, line=existing.line)
    locks = tuple(one["install"]["lock"] for one in fresh)
    if wish.commit:
        git.insist_on_rest(settings, existing.file if existing else settings.spec_root)
    for lock in locks:
        create_beside(settings, lock, shipped.templates()[lock])
    file, line = _extend(settings, existing, fresh, wish) if existing else _write(fleet, name, wish)
    versions = tuple(one["version"] for one in fresh)
    message = f"Add {name} {', '.join(versions)}"
    return BundleAdded(
        ref=str(ref),
        versions=versions,
        file=file,
        line=line,
        locks=locks,
        commit=git.commit(settings, file, message, locks) if wish.commit else "",
    )


def _offers(has: set[tuple[str, str]]) -> Iterator[BundleOffer]:
    for name in shipped_names():
        spec = shipped_spec(name) or {}
        versions = [one["version"] for one in spec["versions"]]
        left = tuple(version for version in versions if (name, version) not in has)
        if left:
            yield BundleOffer(bundle=name, display_name=spec["displayName"], versions=left)


def _existing(desired: Desired, ref: Ref) -> Resource | None:
    if ref in desired.frozen:
        raise refuse("edit_unsound", f"the document of {ref} has errors", "gpuaas validate")
    return desired.resources.get(ref)


def _write(fleet: Fleet, name: str, wish: BundleWish) -> tuple[str, int]:
    settings = fleet.settings
    path = wish.file or fleet.folder / settings.spec_root / "bundles" / f"{name}.yaml"
    content = shipped.templates()[f"bundles/{name}.yaml"].encode()
    count = len(_value(name, content.decode())["spec"]["versions"]) if wish.index else 0
    for number in range(count):
        place = ("spec", "versions", number, "install")
        content = values_set(path.name, content, 0, place, {"index": wish.index})
    (located,) = read_documents(path.name, content).documents
    return create(settings, path, content.decode()), located.document.line


def _extend(
    settings: Settings, existing: Resource, fresh: list[Mapping[str, Any]], wish: BundleWish
) -> tuple[str, int]:
    index = {"index": wish.index} if wish.index else {}
    changes = [
        Added(
            path=("spec", "versions"),
            entry={**one, "install": {**one["install"], **index}},
        )
        for one in fresh
    ]
    place = edit(settings, existing.file, existing.document, changes)
    return existing.file, place.line


def _value(name: str, text: str) -> Mapping[str, Any]:
    (located,) = read_documents(f"{name}.yaml", text.encode()).documents
    value: Mapping[str, Any] = located.document.value
    return value
