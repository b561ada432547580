"""Bundles: which there are, on which nodes each version is installed, and who uses it.

Read from the state, as storages are: what is recorded and what hosts have shown stand apart, and
whether they agree is told of each. No host is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.bundle import BUNDLES, BundleSpec, Compatible, GpuVendor, Verify
from reconciler.model.host.facts.runtime_fact import default_key, runtime_key, staged
from reconciler.model.host.layout import RUNTIMES
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Origin
from reconciler.model.state.install import Install, InstallState
from reconciler.model.state.world import Recorded, World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.specs import read_desired, read_origins
from reconciler.planner.bundles.versions import in_order
from reconciler.specs.read.suggest import did_you_mean
from reconciler.store.snapshot import read_world

GONE = "gone"
"""The state of a version that its bundle does not have any more, and that nodes still have."""

SUPPORT = (
    f"the platform answers for what stands below {RUNTIMES}, and for nothing else: what people"
    " install themselves, in their homes, environments or containers, is theirs"
)

Installs = Mapping[tuple[str, str, str], Install]
Users = Mapping[tuple[str, str, str], list[str]]
"""By node, bundle and version: the allocations there that name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleStanding:
    """The state of one bundle version on one node.

    `state` is as recorded, empty where no host was asked for it; `shown` is what the host has
    shown, empty where it shows nothing, None where nobody has looked. `agrees` is whether both say
    the same, None where nobody can tell. `is_current` says that it is the host's own default, which
    no allocation depends on.
    """

    node: str
    state: str = ""
    since: str = ""
    digest: str = ""
    problem: str = ""
    shown: str | None = None
    observed_at: str = ""
    agrees: bool | None = None
    is_current: bool = False
    used_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRow:
    """One version of a bundle. `runs_on` says in words what it needs, empty for unknown.

    It is tried by `imports`; with `asks_for_gpu` these alone do not prove it, and nothing else is
    tried.
    """

    bundle: str
    version: str
    state: str
    display_name: str = ""
    support_level: str = ""
    runs_on: str = ""
    python: str = ""
    lock: str = ""
    lock_digest: str = ""
    index: str = ""
    imports: tuple[str, ...] = ()
    asks_for_gpu: bool = False
    nodes: tuple[BundleStanding, ...] = ()

    @property
    def used_by(self) -> tuple[str, ...]:
        return tuple(sorted({ref for node in self.nodes for ref in node.used_by}))


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleShown:
    """One bundle in full; `support` says what the platform answers for, and what it does not."""

    ref: str
    versions: tuple[BundleRow, ...]
    is_applied: bool
    file: str = ""
    line: int = 0
    origin: Origin = field(default_factory=Origin)
    support: str = SUPPORT


def bundles(fleet: Fleet) -> tuple[BundleRow, ...]:
    """All versions that are recorded or that nodes have, by bundle and version."""
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
    recorded = {one.ref.name: BUNDLES.applied(one) for one in BUNDLES.recorded(world)}
    names = recorded.keys() | {one.bundle for one in world.installs}
    held = _Holdings(world)
    return tuple(row for name in sorted(names) for row in _rows(name, recorded.get(name), held))


def show_bundle(fleet: Fleet, text: str) -> BundleShown:
    """A bundle, or one version of it for NAME@VERSION. Raises ProblemError `not_found`."""
    name, _, version = text.removeprefix("bundle/").partition("@")
    ref = Ref("bundle", "", name)
    resource = read_desired(fleet).resources.get(ref)
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
    recorded = world.recorded.get(ref)
    known = resource or recorded
    rows = _rows(name, BUNDLES.spec(known) if known else None, _Holdings(world))
    found = [row for row in rows if version in ("", row.version)]
    if not found:
        names = {one.name for one in world.refs_of("bundle")} - {name}
        raise refuse(
            "not_found",
            f"bundle/{text} is neither in the specs nor in the state",
            did_you_mean(name, names) or "gpuaas bundle list",
        )
    file = known.file if known else ""
    return BundleShown(
        ref=str(ref),
        versions=tuple(found),
        is_applied=bool(recorded and known and recorded.normal == known.normal),
        file=file,
        line=resource.line if resource else 0,
        origin=read_origins(fleet, {ref: file}, () if resource else (ref,))[ref]
        if file
        else Origin(),
    )


def installs_of(world: World) -> Installs:
    return {(one.node, one.bundle, one.version): one for one in world.installs}


def users_of(world: World) -> Users:
    """Every recorded allocation that uses it, in whatever phase: its descriptor may still name
    it.
    """
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for ref in sorted(world.refs_of("allocation")):
        recorded = world.recorded[ref]
        if recorded.node:
            for one in ALLOCATIONS.applied(recorded).runtimes:
                found[recorded.node, one.bundle, one.version].append(str(ref))
    return found


def standing(
    place: tuple[str, str, str], world: World, install: Install | None, users: Users
) -> BundleStanding:
    """The standing of one `place`: a node, a bundle and a version."""
    node, bundle, version = place
    seen = world.observations.get(node)
    named = seen.facts.platform if seen and seen.facts else None
    shown = None if named is None else named.get(runtime_key(bundle, version), "")
    return BundleStanding(
        node=node,
        state=install.state if install else "",
        since=install.since if install else "",
        digest=install.digest if install else "",
        problem=install.problem if install else "",
        shown=shown,
        observed_at=seen.at if seen else "",
        agrees=_agrees(install, shown),
        is_current=(named or {}).get(default_key(bundle)) == version,
        used_by=tuple(users.get(place, ())),
    )


def _agrees(install: Install | None, shown: str | None) -> bool | None:
    """What is staged shows itself by its digest; of what has failed there may be nothing."""
    if install is None or shown is None:
        return None
    if install.state is InstallState.STAGED:
        return shown == staged(install.digest)
    word = shown.partition(" ")[0]
    return word == install.state or (install.state is InstallState.FAILED and not word)


class _Holdings:
    """Where versions stand or are named, sorted out once for all bundles."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.installs, self.users = installs_of(world), users_of(world)
        self.places: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for node, bundle, version in (*self.installs, *self.users):
            self.places[bundle].add((version, node))


def _rows(name: str, spec: BundleSpec | None, held: _Holdings) -> Iterator[BundleRow]:
    stated = {one.version: one for one in spec.versions} if spec else {}
    places: dict[str, set[str]] = {version: set() for version in stated}
    for version, node in held.places.get(name, ()):
        places.setdefault(version, set()).add(node)
    for version in in_order(places):
        one = stated.get(version)
        install, verify = one.install if one else None, one.verify if one else Verify()
        yield BundleRow(
            bundle=name,
            version=version,
            state=one.state if one else GONE,
            display_name=spec.display_name if spec else "",
            support_level=spec.support_level if spec else "",
            runs_on=runs_on(one.compatible if one else None),
            python=install.python if install else "",
            lock=install.lock if install else "",
            lock_digest=install.lock_digest if install else "",
            index=(install.index or "") if install else "",
            imports=verify.imports,
            asks_for_gpu=verify.gpu,
            nodes=tuple(
                standing(place, held.world, held.installs.get(place), held.users)
                for node in sorted(places[version])
                for place in [(node, name, version)]
            ),
        )


def runs_on(compatible: Compatible | None) -> str:
    """In words, what the version needs; empty where nothing is stated."""
    if not compatible:
        return ""
    vendor, driver = compatible.gpu_vendor, compatible.driver_min
    told = (
        "no GPU needed" if vendor is GpuVendor.NONE else vendor,
        f"driver {driver} or later" if driver else "",
        f"CUDA {compatible.cuda}" if compatible.cuda else "",
        f"families {', '.join(compatible.families)}" if compatible.families else "",
    )
    return ", ".join(filter(None, told))


def run_by(one: Recorded, installs: Installs) -> tuple[str, ...]:
    """`pytorch@2.13.0-cpu staged`, for each runtime of an allocation, the default first."""
    return tuple(
        f"{bundle}@{version} {found.state if found else 'wanted'}"
        for bundle, version in named_by(one)
        for found in [installs.get((one.node, bundle, version))]
    )


def named_by(one: Recorded) -> Iterator[tuple[str, str]]:
    """The runtimes of an allocation as bundle and version, the default first."""
    for named in ALLOCATIONS.applied(one).runtimes:
        yield named.bundle, named.version
