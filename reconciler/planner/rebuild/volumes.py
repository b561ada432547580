"""Volumes of a rebuild: durable data that hosts report and the state does not know. Pure.

Who has a volume stands beside its data, and what a host mounts may be more than that: whoever was
cut off by a word has it mounted still, and stays cut off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace

from reconciler.kinds.node.spec import NODES
from reconciler.kinds.storage import STORAGES, AccessMode, StorageSpec
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.host.facts.attached_fact import had_by_key, read_sound
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.volume import Attachment, Volume, VolumeState
from reconciler.model.state.world import Recorded, World
from reconciler.planner.rebuild.volume_records import FoundVolume

ALONE = AccessMode.SINGLE_WRITER


@dataclass(frozen=True, slots=True, kw_only=True)
class Regained:
    """What a rebuild knows of durable data.

    `severed` are allocations that were cut off and still have it mounted; `gids` are the numbers of
    projects that files bear, `recorded` storages as they were.
    """

    volumes: tuple[Volume, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    severed: tuple[Attachment, ...] = ()
    gids: Mapping[str, int] = field(default_factory=dict)
    recorded: Mapping[Ref, Recorded] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a rebuild knows besides records.

    These are allocations by id, with their names and places, what hosts show, and which node is
    which machine.
    """

    desired: Desired
    world: World
    places: Mapping[str, tuple[Ref, str]]
    facts: Mapping[str, NodeFacts]
    at: str

    def node_of(self, machine: str) -> str:
        """By what git and the hosts say; of a machine that nobody knows its own number."""
        said = {
            n.spec.identity.machine_id: n.ref.name
            for n in NODES.of(self.desired)
            if n.spec.identity
        }
        shown = {one.machine_id: name for name, one in self.facts.items()}
        return {**said, **shown}.get(machine, machine)


def regain(found: Iterable[FoundVolume], ground: Ground) -> Regained:
    """`found` are all records that hosts have shown and that are taken or known already."""
    found = list(found)
    volumes = _volumes(found, ground)
    lying = {one.id: one for one in ground.world.volumes.values()} | volumes
    held, holders = _held(found, lying, ground)
    mounted = dict(_mounted(lying, ground))
    # Mounted where the record beside the data does not have it: it was cut off.
    severed = {
        key: one
        for key, one in mounted.items()
        if one.volume in holders and one.allocation_id not in holders[one.volume]
    }
    # Of hosts that share a volume each was told its name by itself: where it is mounted counts.
    named = {k: replace(held[k], storage=mounted[k].storage) for k in held.keys() & mounted.keys()}
    having = {**mounted, **held, **named}
    by_volume: dict[str, list[Attachment]] = defaultdict(list)
    for one in having.values():
        by_volume[one.volume].append(one)
    cut_off: dict[str, list[str]] = defaultdict(list)
    for id, volume, _ in severed:
        cut_off[volume].append(id)
    return Regained(
        volumes=tuple(
            replace(
                one,
                state=_state(one, by_volume.keys(), ground),
                fenced=tuple(sorted(cut_off.get(one.id, ()))),
            )
            for _, one in sorted(volumes.items())
        ),
        attachments=tuple(_new(ground, {k: v for k, v in having.items() if k not in severed})),
        # One by one: who is cut off at once bars nobody.
        severed=tuple(new for k, one in sorted(severed.items()) for new in _new(ground, {k: one})),
        gids={
            one.ref.project: one.record.gid
            for one in found
            if one.ref and one.record and one.record.gid is not None and one.id in volumes
        },
        recorded={
            one.ref: _recorded(one, by_volume.get(one.id, ()), ground)
            for one in volumes.values()
            if _state(one, by_volume.keys(), ground) is VolumeState.MADE
            and one.ref not in ground.world.recorded
        },
    )


def _volumes(found: Iterable[FoundVolume], ground: Ground) -> dict[str, Volume]:
    known = {one.id for one in ground.world.volumes.values()}
    volumes: dict[str, Volume] = {}
    for one in found:
        record = one.record
        if one.id in known or record is None or one.ref is None:
            continue
        before = volumes.get(one.id)
        volumes[one.id] = Volume(
            id=one.id,
            ref=one.ref,
            class_name=record.class_name,
            backend=record.backend,
            node="" if record.reaches_all else one.node,
            size_gib=max(record.size_gib, before.size_gib if before else 0),
            since=ground.at,
        )
    return volumes


def _state(one: Volume, attached: Collection[str], ground: Ground) -> VolumeState:
    """Data whose document is gone is kept, unless somebody has it still."""
    used = one.ref in ground.desired.resources or one.id in attached
    return VolumeState.MADE if used else VolumeState.KEPT


_Key = tuple[str, str, str]


def _new(ground: Ground, having: Mapping[_Key, Attachment]) -> Iterator[Attachment]:
    """What the state does not know, and can know next to what it knows already.

    Of data that it has as kept, or as being wiped, nobody has any by its word; and whom somebody
    has cut off gets it back by none.
    """
    there: dict[str, list[Attachment]] = {}
    for key, one in sorted(having.items()):
        volume = ground.world.volume_of(one.volume)
        if volume is not None and not _can_be_had(volume, one):
            continue
        known = there.setdefault(one.volume, [*ground.world.attachments_of(one.volume)])
        if key not in map(_place, known) and not any(map(one.bars, known)):
            known.append(one)
            yield one


def _can_be_had(volume: Volume, one: Attachment) -> bool:
    there = volume.state in (VolumeState.PENDING, VolumeState.MADE)
    here = volume.node in ("", one.node)
    return there and here and one.allocation_id not in volume.fenced


def _place(one: Attachment) -> _Key:
    return one.allocation_id, one.volume, one.mount_path


def _held(
    found: Iterable[FoundVolume], lying: Mapping[str, Volume], ground: Ground
) -> tuple[dict[_Key, Attachment], Mapping[str, set[str]]]:
    """Who has what by what stands beside the data, and of which volumes that could be read.

    A storage goes by the name that hosts were told last, as they have it mounted.
    """
    held: dict[_Key, Attachment] = {}
    known: dict[str, set[str]] = {}
    for one in found:
        volume = lying.get(one.id)
        if one.record is None or one.record.holders is None or volume is None:
            continue
        known.setdefault(one.id, set()).update(h.allocation_id for h in one.record.holders)
        for holder in one.record.holders:
            ref, node = ground.places.get(holder.allocation_id) or (
                _by_login(holder.login, volume.ref.project),
                ground.node_of(holder.machine),
            )
            attachment = Attachment(
                allocation_id=holder.allocation_id,
                volume=one.id,
                ref=ref,
                storage=one.record.ref,
                node=volume.node or node,
                mode=holder.mode,
                access=holder.access,
                mount_path=holder.mount_path,
            )
            held[_place(attachment)] = attachment
    return held, known


def _by_login(login: str, project: str) -> Ref:
    """Of an allocation that nobody has shown: what it is called begins its login."""
    return Ref("allocation", project, login.rpartition("-")[0])


def _mounted(lying: Mapping[str, Volume], ground: Ground) -> Iterator[tuple[_Key, Attachment]]:
    """What hosts show that allocations have which are known to be there."""
    for node, facts in ground.facts.items():
        for key, value in (facts.platform or {}).items():
            had, told = had_by_key(key), read_sound(value)
            if had is None or told is None:
                continue
            id, called = had
            ref, place = ground.places.get(id, (None, ""))
            volume = lying.get(told.volume)
            if ref is None or volume is None or place != node:
                continue
            document = ground.desired.resources.get(volume.ref)
            attachment = Attachment(
                allocation_id=id,
                volume=told.volume,
                ref=ref,
                storage=volume.ref._replace(name=called),
                node=node,
                mode=told.mode,
                access=str(document.spec.access_mode) if document else str(ALONE),
                mount_path=told.path,
            )
            yield _place(attachment), attachment


def _recorded(one: Volume, having: Iterable[Attachment], ground: Ground) -> Recorded:
    """As git wants it, but for what its record says otherwise: that is what it was."""
    resource = STORAGES.at(ground.desired, one.ref)
    normal = dict(resource.normal) if resource else {"labels": {}}
    if resource is None:
        access = AccessMode(next((a.access for a in having), ALONE))
        spec = StorageSpec(class_=one.class_name, size_gib=one.size_gib, access_mode=access)
    else:
        spec = replace(resource.spec, class_=one.class_name, size_gib=one.size_gib)
    normal["spec"] = encode(spec)
    return Recorded(
        ref=one.ref,
        normal=normal,
        digest=digest(normal),
        file=resource.file if resource else "",
        applied_at=ground.at,
        protect=bool(resource and resource.spec.protect),
    )
