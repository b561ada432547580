"""The mirror: wheels of a bundle in a folder, for hosts that reach no index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reconciler import shipped
from reconciler.hosts.wheels import fetch_wheels
from reconciler.kinds.bundle import BUNDLES, InstallSpec, Version, parse
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.requirements import Requirements
from reconciler.operations.bundle.catalogue import shipped_names, shipped_spec
from reconciler.operations.fleet import Fleet
from reconciler.operations.specs import read_desired
from reconciler.specs.read.requirements_file import read_requirements
from reconciler.specs.read.suggest import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredVersion:
    """`wheels` are the names of all of its wheels; `mib` is their size together."""

    bundle: str
    version: str
    wheels: tuple[str, ...]
    mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    folder: str
    versions: tuple[MirroredVersion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorWish:
    """`to` is the folder; `indexes` are addresses or names in gpuaas.yaml.

    `tell` is given what is being fetched.
    """

    to: Path
    indexes: tuple[str, ...] = ()
    tell: Callable[[str], None] = lambda what: None


def mirror(fleet: Fleet, text: str, wish: MirrorWish) -> Mirrored:
    """Download all versions of a bundle of the fleet or the program, or one for NAME@VERSION.

    Raises ProblemError `not_found`, `dangling_reference` or `mirror_failed`; what was downloaded by
    then stays.
    """
    name, _, wanted = text.partition("@")
    indexes = [_address(fleet.settings, one) for one in wish.indexes]
    folder = wish.to.expanduser().absolute()
    done = []
    for version, install, lock in _locked(read_desired(fleet), name, wanted):
        wish.tell(f"{name} {version.version}")
        own = indexes or _own(fleet.settings, install)
        wheels = fetch_wheels(lock, install.python, folder, own)
        size = sum((folder / wheel).stat().st_size for wheel in wheels)
        done.append(
            MirroredVersion(bundle=name, version=version.version, wheels=wheels, mib=-(-size >> 20))
        )
    return Mirrored(folder=str(folder), versions=tuple(done))


def _locked(
    desired: Desired, name: str, wanted: str
) -> list[tuple[Version, InstallSpec, Requirements]]:
    """The versions with their requirements, which are as they were agreed."""
    ref = Ref("bundle", "", name)
    if ref in desired.frozen:
        raise refuse("not_found", f"the document of {ref} has errors", "gpuaas validate")
    found = [one for one in _all_locked(desired, name) if wanted in ("", one[0].version)]
    if not found:
        known = {one.ref.name for one in BUNDLES.of(desired)}
        what = f"{name}@{wanted}" if wanted else name
        hint = did_you_mean(name, {*known, *shipped_names()} - {name}) or "gpuaas bundle list"
        raise refuse("not_found", f"there are no requirements of a bundle {what}", hint)
    return found


def _all_locked(desired: Desired, name: str) -> Iterator[tuple[Version, InstallSpec, Requirements]]:
    resource, spec = BUNDLES.get(desired, name), shipped_spec(name)
    if resource is not None:
        for one in resource.spec.versions:
            if one.install and one.install.lock_digest in desired.locks:
                yield one, one.install, desired.locks[one.install.lock_digest]
    elif spec is not None:
        for one in parse(spec, name).versions:
            if one.install:
                yield one, one.install, read_requirements(shipped.templates()[one.install.lock])


def _address(settings: Settings, index: str) -> str:
    if "://" in index:
        return index
    if index not in settings.index:
        hint = did_you_mean(index, settings.index) or "write an address: --index URL"
        raise refuse("dangling_reference", f"gpuaas.yaml has no index named {index}", hint)
    return settings.index[index]


def _own(settings: Settings, install: InstallSpec) -> Sequence[str]:
    """A folder that hosts have is none of this machine's."""
    stated = settings.index.get(install.index or "", "")
    return (stated,) if stated.startswith("http") else ()
