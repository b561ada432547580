"""The storage of an allocation: what its host is asked to attach, and what to detach.

Where a tenant's data really lies is the volume's business; an allocation sees it by two mounts,
the real one at `/gpuaas/<id>/<storage>` and the view of it that stands at its mount path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from reconciler.kinds.allocation.steps import (
    file_facts,
    file_items,
    step_of,
)
from reconciler.kinds.checks.once import once
from reconciler.kinds.contract import Binding, Context
from reconciler.model.host import layout
from reconciler.model.host.facts.attached_fact import AttachedFact, attached_key, read_attached
from reconciler.model.host.facts.path_fact import link_fact, shown
from reconciler.model.host.signed_record import with_signature
from reconciler.model.plan.items.storage import (
    AttachedVolume,
    AttachItem,
    DetachedVolume,
    DetachItem,
    ForgetItem,
)
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.verb import Verb
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.volume import Attachment, BackendWord, Volume, VolumeState
from reconciler.model.state.world import World

RECORD = "storage/volume.json.j2"
SOURCE, MOUNT, VIEW = (f"storage/{name}.mount.j2" for name in ("source", "attachment", "view"))
TEMPLATES = (RECORD, SOURCE, MOUNT, VIEW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One storage as an allocation names it, and the volume that it is made of."""

    storage: Ref
    volume: Volume
    mode: str
    mount_path: str
    size_gib: int
    access: str

    @property
    def folder(self) -> str:
        """Its own one, where it stands who has it."""
        ((backend, about),) = self.volume.backend.items()
        place = (
            layout.VOLUME_MOUNT.of(self.volume.id) if backend == BackendWord.NFS else about["path"]
        )
        return f"{place}/{self.volume.id}"

    @property
    def data(self) -> str:
        """Where its files lie on the host."""
        folder = (
            layout.VOLUME_MOUNT.of(self.volume.id)
            if BackendWord.LOOP in self.volume.backend
            else self.folder
        )
        return f"{folder}/data"

    def is_same(self, other: Attachment) -> bool:
        """Whether that is how it is attached already."""
        return (self.storage.name, self.volume.id, self.mode, self.mount_path) == (
            other.storage.name,
            other.volume,
            other.mode,
            other.mount_path,
        )


def mounts(binding: Binding, context: Context) -> tuple[Mount, ...]:
    """All that it is to have; from what somebody has sworn that it is cut off from, it stays so."""
    return tuple(_mounts(binding, context))


def _mounts(binding: Binding, context: Context) -> Iterator[Mount]:
    for one in binding.resource.spec.storage if binding.resource else ():
        ref = Ref("storage", binding.ref.project, one.name)
        volume, storage = context.volumes.get(ref), context.desired.resources.get(ref)
        if volume is None or storage is None or binding.id in volume.fenced:
            continue
        yield Mount(
            storage=ref,
            volume=volume,
            mode=str(one.mode),
            mount_path=one.mount_path.rstrip("/"),
            size_gib=storage.spec.size_gib,
            access=str(storage.spec.access_mode),
        )


def leftover(binding: Binding, context: Context) -> tuple[Attachment, ...]:
    """What the allocation has, or may have, and is not to have any more."""
    wanted = mounts(binding, context)
    known = _by_allocation(context.world).get(binding.id, ())
    gone = (one for one in known if not any(mount.is_same(one) for mount in wanted))
    return (*gone, *_cut_off(binding, context))


@once
def _by_allocation(world: World) -> Mapping[str, tuple[Attachment, ...]]:
    found: dict[str, list[Attachment]] = defaultdict(list)
    for one in world.attachments:
        found[one.allocation_id].append(one)
    return {id: tuple(several) for id, several in found.items()}


@once
def _by_id(volumes: Mapping[Ref, Volume]) -> Mapping[str, Volume]:
    return {volume.id: volume for volume in volumes.values()}


@once
def _by_place(world: World) -> Mapping[tuple[str, str], frozenset[str]]:
    """Ids of allocations by the volume that they have and the node that they have it on."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in world.attachments:
        found[one.volume, one.node].add(one.allocation_id)
    return {place: frozenset(ids) for place, ids in found.items()}


def _cut_off(binding: Binding, context: Context) -> Iterator[Attachment]:
    """What somebody has sworn that it has no more, as long as its host was not seen to agree.

    By what was recorded of it and by what its host shows: an attach that nobody saw the end of, and
    that was never recorded, may have come to its end all the same.
    """
    severed = _severed(context.world).get(binding.id, frozenset())
    for name, volume, mode, path in _had(binding, context) if severed else ():
        if volume in severed:
            yield Attachment(
                allocation_id=binding.id,
                volume=volume,
                ref=binding.ref,
                storage=Ref("storage", binding.ref.project, name),
                node=binding.placement.node,
                mode=mode,
                access="",
                mount_path=path or f"/data/{name}",
            )


@once
def _severed(world: World) -> Mapping[str, frozenset[str]]:
    """Ids of volumes by the allocation that somebody has cut off from them."""
    found: dict[str, set[str]] = defaultdict(set)
    for volume in world.volumes.values():
        for id in volume.fenced:
            found[id].add(volume.id)
    return {id: frozenset(ids) for id, ids in found.items()}


def _had(binding: Binding, context: Context) -> Iterator[tuple[str, str, str, str]]:
    """(storage, volume, mode, mount path) of all that it was seen with; no path without a view."""
    seen = context.world.observations.get(binding.placement.node)
    shown = (seen.facts.platform if seen and seen.facts else None) or {}
    recorded = binding.recorded.facts if binding.recorded else {}
    prefix = attached_key(binding.id)
    for key, fact in sorted({**recorded, **shown}.items()):
        if key.startswith(prefix) and fact and (told := read_attached(fact)):
            yield key[len(prefix) :], told.volume, told.mode, told.path


def basis(binding: Binding, context: Context) -> Mapping[str, object]:
    """Nothing where it names no storage, so that allocations without any stay as they were."""
    found = [_told(mount) for mount in mounts(binding, context)]
    return {"storage": found} if found else {}


def templates(binding: Binding, context: Context) -> tuple[str, ...]:
    """The templates that its files are made from."""
    if not mounts(binding, context):
        return ()
    return TEMPLATES if binding.uid is not None else (RECORD,)


def attaching(binding: Binding, context: Context) -> tuple[Step, ...]:
    """All of it, each time: what stands already is left as it is."""
    found = mounts(binding, context)
    if not found:
        return ()
    facts: dict[str, str | None] = {}
    volumes = []
    for mount in found:
        record, units = _record(mount, binding, context), _units(mount, binding, context)
        volumes.append(
            AttachedVolume(
                id=mount.volume.id,
                name=mount.storage.name,
                backend=mount.volume.backend,
                size_gib=mount.size_gib,
                access=mount.access,
                mode=mount.mode,
                mount_path=mount.mount_path,
                make=mount.volume.state is VolumeState.PENDING,
                fenced=mount.volume.fenced,
                record=record,
                files=file_items(units),
            )
        )
        facts |= file_facts({record_path(mount.volume.id): record, **units})
        facts |= {shown(_link(path)): link_fact(path) for path in units}
        had = AttachedFact(volume=mount.volume.id, mode=mount.mode, path=mount.mount_path)
        facts[attached_key(binding.id, mount.storage.name)] = had.text
    item = AttachItem(
        id=binding.id,
        login=binding.login,
        uid=binding.uid or 0,
        gid=binding.gid or 0,
        volumes=tuple(volumes),
    )
    return (step_of(binding, Verb.ATTACH, Order.PROVIDE, item, facts),)


def detaching(binding: Binding, context: Context) -> tuple[Step, ...]:
    """The step that detaches everything it should not have any more; none where there is
    nothing.
    """
    found = leftover(binding, context)
    if not found:
        return ()
    facts: dict[str, str | None] = {}
    volumes = []
    for one in found:
        last = _is_last(one, context)
        volume = _by_id(context.volumes).get(one.volume)
        backend = volume.backend if volume else {}
        absent = _unit_paths(one, binding, backend, last) if binding.uid is not None else ()
        volumes.append(
            DetachedVolume(
                id=one.volume,
                name=one.storage.name,
                backend=backend,
                mount_path=one.mount_path,
                absent=tuple(absent),
                last=last,
            )
        )
        facts |= {shown(path): None for unit in absent for path in (unit, _link(unit))}
        facts[attached_key(binding.id, one.storage.name)] = None
    item = DetachItem(
        id=binding.id,
        login=binding.login,
        uid=binding.uid or 0,
        end=binding.ref in context.forced,
        volumes=tuple(volumes),
    )
    return (step_of(binding, Verb.DETACH, Order.RETIRE, item, facts),)


def record_path(volume: str) -> str:
    """Where a host keeps whose a volume is, from its first attachment until it is wiped."""
    return layout.VOLUME_RECORD.of(volume)


def recorded_volumes(paths: Iterable[str]) -> Iterator[str]:
    """Ids of all volumes of which a host that shows these paths has a record."""
    for path in paths:
        if volume := layout.VOLUME_RECORD.name_in(path):
            yield volume


def records_let_go(step: Step) -> tuple[str, ...]:
    """Records that nobody is asked about any more: as long as there is data they stay with it."""
    if isinstance(step.item, ForgetItem):
        return (step.item.record,)
    if not isinstance(step.item, DetachItem):
        return ()
    return tuple(record_path(one.id) for one in step.item.volumes)


def _told(mount: Mount) -> Mapping[str, object]:
    return {
        "name": mount.storage.name,
        "volume": mount.volume.id,
        "backend": mount.volume.backend,
        "sizeGiB": mount.size_gib,
        "access": mount.access,
        "mode": mount.mode,
        "mountPath": mount.mount_path,
    }


def _record(mount: Mount, binding: Binding, context: Context) -> str:
    values = {
        "stateId": context.world.state_id,
        "ref": str(mount.storage),
        "id": mount.volume.id,
        "class": mount.volume.class_name,
        "backend": mount.volume.backend,
        "sizeGiB": mount.size_gib,
        "gid": binding.gid or 0,
    }
    return context.render(RECORD, with_signature(values, context.sign))


def _units(mount: Mount, binding: Binding, context: Context) -> Mapping[str, str]:
    """Path → content, the first one first; a folder that stands for a host mounts nothing."""
    if binding.uid is None:
        return {}
    real, view = real_path(binding.id, mount.storage.name), _view_path(binding, mount.mount_path)
    source = layout.VOLUME_MOUNT.of(mount.volume.id)
    values = {
        "ref": str(binding.ref),
        "id": binding.id,
        "storage": str(mount.storage),
        "volume": mount.volume.id,
        "backend": mount.volume.backend,
        "source": source,
        "folder": mount.folder,
        "data": mount.data,
        "real": real,
        "view": view,
        "mountPath": mount.mount_path,
        "mode": mount.mode,
    }
    places = {MOUNT: real, VIEW: view}
    if BackendWord.DIRECTORY not in mount.volume.backend:
        places = {SOURCE: source, **places}
    return {
        layout.mount_unit(place): context.render(name, values) for name, place in places.items()
    }


def _unit_paths(
    one: Attachment, binding: Binding, backend: Mapping[str, object], last: bool
) -> tuple[str, ...]:
    """The view goes first, and what the data lies on only with the last who has it."""
    source = (
        [layout.VOLUME_MOUNT.of(one.volume)]
        if last and BackendWord.DIRECTORY not in backend
        else []
    )
    places = [
        _view_path(binding, one.mount_path),
        real_path(binding.id, one.storage.name),
        *source,
    ]
    return tuple(map(layout.mount_unit, places))


def _is_last(one: Attachment, context: Context) -> bool:
    return not _by_place(context.world).get((one.volume, one.node), set()) - {one.allocation_id}


def real_path(allocation_id: str, storage: str) -> str:
    return f"{layout.MOUNTS}/{allocation_id}/{storage}"


def _view_path(binding: Binding, mount_path: str) -> str:
    """What the tenant sees at `/data/x` stands in the instance of `/data` that is its login's."""
    _, top, *rest = mount_path.split("/")
    return "/".join((layout.instance(top).of(binding.login), *rest))


def _link(path: str) -> str:
    return f"{layout.WANTS}/{path.rpartition('/')[2]}"
