"""`storage`: which storages there are, where their data is, and who has them attached.

Read from the state, as nodes and slots are: no spec is read for a list, and no host is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from operator import itemgetter

from reconciler.kinds.checks.once import once
from reconciler.kinds.storage import STORAGES
from reconciler.model.host import layout
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.spec.desired import Origin
from reconciler.model.state.volume import Attachment, Volume, VolumeState
from reconciler.model.state.world import Recorded, World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.references import insist_on_name, unknown_ref
from reconciler.operations.specs import read_desired, read_origins
from reconciler.store import queries
from reconciler.store.file.database import Database
from reconciler.store.snapshot import read_world

UNUSED, UNKNOWN = "unused", "unknown"
"""States beside those of volumes: nobody has had it yet, and a host has what no state knows of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageHolder:
    """Who has a storage, or may have it; `phase` is that of the allocation, empty if it is gone."""

    allocation: str
    allocation_id: str
    node: str
    mode: str
    mount_path: str
    since: str
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRow:
    """`node` is where its data lies, empty where every node of its class reaches it.

    `used_mib` is None where no host says; `price_per_month` is empty where its class names none.
    `owner` is whom to ask about data that is kept.
    """

    ref: str
    state: str
    class_name: str = ""
    backend: str = ""
    access: str = ""
    size_gib: int = 0
    used_mib: int | None = None
    node: str = ""
    holders: tuple[StorageHolder, ...] = ()
    volume: str = ""
    since: str = ""
    owner: str = ""
    price_per_month: str = ""
    currency: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageShown:
    """One storage in full: what git says, what it is made of, who has it and who had it.

    `fenced` are allocations that were cut off by somebody's word.
    """

    row: StorageRow
    file: str = ""
    line: int = 0
    origin: Origin = field(default_factory=Origin)
    desired: Mapping[str, object] | None = None
    recorded: Mapping[str, object] | None = None
    fenced: tuple[str, ...] = ()
    past: tuple[Mapping[str, object], ...] = ()
    usage: tuple[Mapping[str, object], ...] = ()


def storages(fleet: Fleet, project: str = "") -> tuple[StorageRow, ...]:
    """All that are recorded or whose data is kept, by ref; with `project`, only its own."""
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        insist_on_name(fleet, database, world, "project", project)
        return tuple(_rows(database, world, project))


def orphans(fleet: Fleet, project: str = "") -> tuple[StorageRow, ...]:
    """Data that no document names: what is kept, and what hosts have that no state knows of."""
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        insist_on_name(fleet, database, world, "project", project)
        rows = _rows(database, world, project)
        kept = [row for row in rows if row.state == VolumeState.KEPT]
        strangers = () if project else _strangers(world, queries.volume_ids(database))
        return (*kept, *strangers)


def show_storage(fleet: Fleet, text: str) -> StorageShown:
    """Raises ProblemError `not_found`."""
    ref = storage_of(text)
    desired = read_desired(fleet)
    resource = desired.resources.get(ref)
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        rows = {row.ref: row for row in _rows(database, world, ref.project)}
        recorded, volume = world.recorded.get(ref), world.volumes.get(ref)
        past = [row for row in queries.attachments(database, str(ref)) if row["ended"]]
        usage = queries.storage_usage(database, str(ref))
    if resource is None and str(ref) not in rows and not past:
        raise unknown_ref(fleet, world, ref, "neither in the specs nor in the state")
    file = resource.file if resource else recorded.file if recorded else ""
    return StorageShown(
        row=rows.get(str(ref)) or StorageRow(ref=str(ref), state=UNUSED),
        file=file,
        line=resource.line if resource else 0,
        origin=read_origins(fleet, {ref: file}, () if resource else (ref,))[ref]
        if file
        else Origin(),
        desired=resource.normal if resource else None,
        recorded=recorded.normal if recorded else None,
        fenced=volume.fenced if volume else (),
        past=tuple(past),
        usage=usage,
    )


def storage_of(text: str) -> Ref:
    """`PROJECT/NAME`, or that behind `storage/`. Raises ProblemError `not_found`."""
    ref = parse_ref(text if text.startswith("storage/") else f"storage/{text}")
    if ref is None or ref.kind != "storage" or not ref.project:
        raise refuse("not_found", f"{text!r} is no storage", "write PROJECT/NAME")
    return ref


def holders(attachments: Iterable[Attachment], world: World) -> tuple[StorageHolder, ...]:
    return tuple(_holder(one, world) for one in attachments)


def _holder(one: Attachment, world: World) -> StorageHolder:
    recorded = world.recorded.get(one.ref)
    lives = recorded is not None and recorded.id == one.allocation_id
    return StorageHolder(
        allocation=str(one.ref),
        allocation_id=one.allocation_id,
        node=one.node,
        mode=one.mode,
        mount_path=one.mount_path,
        since=one.since,
        phase=str(recorded.phase) if recorded and lives else "",
    )


def _rows(database: Database, world: World, project: str) -> Iterator[StorageRow]:
    prices = {
        row["ref"]: (row["price_per_gib_month"] or "", row["currency"] or "")
        for row in queries.projected(database, "storage")
    }
    recorded = set(world.refs_of("storage"))
    for ref in sorted(recorded | world.volumes.keys()):
        if project in ("", ref.project):
            row = _row(ref, world.volumes.get(ref), world.recorded.get(ref), world)
            yield _priced(row, *prices.get(str(ref), ("", "")))


def _row(ref: Ref, volume: Volume | None, recorded: Recorded | None, world: World) -> StorageRow:
    spec = STORAGES.applied(recorded) if recorded else None
    access = spec.access_mode if spec else ""
    if volume is None:
        return StorageRow(
            ref=str(ref),
            state=UNUSED,
            class_name=spec.class_ if spec else "",
            access=access,
            size_gib=spec.size_gib if spec else 0,
            since=recorded.applied_at if recorded else "",
        )
    having = world.attachments_of(volume.id)
    return StorageRow(
        ref=str(ref),
        state=volume.state,
        class_name=volume.class_name,
        backend=next(iter(volume.backend), ""),
        access=access,
        size_gib=volume.size_gib,
        used_mib=used(volume, having, world),
        node=volume.node,
        holders=holders(having, world),
        volume=volume.id,
        since=volume.since,
        owner=volume.owner if volume.state is VolumeState.KEPT else "",
    )


def used(volume: Volume, having: Iterable[Attachment], world: World) -> int | None:
    """By the newest answer of a host that has it; of data that nobody has, of any that tells."""
    own = {volume.node} if volume.node else {one.node for one in having}
    told = [one for one in _sizes(world).get(volume.id, ()) if not own or one[0] in own]
    return max(told, key=itemgetter(1))[2].get("usedMiB") if told else None


@once
def _sizes(world: World) -> Mapping[str, Sequence[tuple[str, str, Mapping[str, int]]]]:
    """By volume: the host that tells of it, when, and what."""
    found: dict[str, list[tuple[str, str, Mapping[str, int]]]] = defaultdict(list)
    for name, seen in world.observations.items():
        for volume, told in ((seen.facts.volumes if seen.facts else None) or {}).items():
            found[volume].append((name, seen.at, told))
    return found


def _priced(row: StorageRow, price: str, currency: str) -> StorageRow:
    if not price:
        return row
    whole = format(Decimal(price) * row.size_gib, ".2f")
    return replace(row, price_per_month=whole, currency=currency)


def _strangers(world: World, known: frozenset[str]) -> Iterator[StorageRow]:
    """Records of volumes on hosts that this state has never had."""
    for name, seen in sorted(world.observations.items()):
        for path in sorted((seen.facts.paths if seen.facts else None) or {}):
            volume = layout.VOLUME_RECORD.name_in(path)
            if volume and volume not in known:
                yield StorageRow(ref="", state=UNKNOWN, node=name, volume=volume)
