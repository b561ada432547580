"""Volume records: which of those on hosts are trusted, as with descriptors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.kinds.storage import STORAGES
from reconciler.model.canonical import canonical
from reconciler.model.host.signed_record import RecordError, SignedRecord
from reconciler.model.host.volume_record import VolumeRecord, read_volume_record
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.planner.rebuild.descriptors import FoundDescriptor, rooted_nodes
from reconciler.planner.rebuild.trust import (
    STATE,
    Authority,
    Key,
    KeyHolder,
    Sighting,
    adopted,
    distrusted,
    doubtful,
    numbers,
    numbers_held,
    without_conflicts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVolume(Sighting):
    """The record of a volume, with who has it; `ref` is what its storage is called by now."""

    record: VolumeRecord | None = None
    ref: Ref | None = None

    @property
    def signed(self) -> SignedRecord | None:
        return self.record


def read_volumes(
    told: Mapping[str, Mapping[str, str]], desired: Desired
) -> tuple[FoundVolume, ...]:
    """Every record of every node, `node` → `id` → text."""
    found = [_read(node, id, text) for node in sorted(told) for id, text in told[node].items()]
    return tuple(_called_now(found, desired))


def verify_volumes(
    found: Iterable[FoundVolume],
    allocations: Iterable[FoundDescriptor],
    authority: Authority,
    adopt: Collection[str],
) -> tuple[FoundVolume, ...]:
    """Each that this state does not know, judged, next to the allocations that are taken in."""
    known = {one.id for one in authority.world.volumes.values()} | authority.world.wiped.keys()
    allocations = list(allocations)
    rooted = rooted_nodes(allocations, authority.desired)
    judged = [_judged(one, authority) for one in found if one.id not in known]
    judged = [distrusted(one) if one.node in rooted else one for one in judged]
    held = [
        *(
            (("storage", str(r)), KeyHolder(v.id, STATE))
            for r, v in authority.world.volumes.items()
        ),
        *numbers_held(authority.world),
        *(
            (key, KeyHolder(value, one.place))
            for one in allocations
            if one.taken and one.descriptor and one.descriptor.gid is not None
            for key, value in numbers(one.descriptor.ref.project, one.descriptor.gid)
        ),
    ]
    return tuple(without_conflicts(adopted(judged, adopt), _keys, held))


def of_known_volumes(found: Iterable[FoundVolume], authority: Authority) -> tuple[FoundVolume, ...]:
    """What hosts say of volumes that this state knows: only where these lie, and signed by us.

    Else a host could say that somebody has what lies on another. Without a key more is believed
    rather than less: who may have data is not forgotten.
    """
    known = {one.id: one for one in authority.world.volumes.values()}
    return tuple(
        one
        for one in found
        if one.id in known
        and known[one.id].node in ("", one.node)
        and (authority.sign is None or not _judged(one, authority).why)
    )


def _read(node: str, id: str, text: str) -> FoundVolume:
    try:
        record = read_volume_record(text)
    except RecordError as error:
        return FoundVolume(node=node, id=id, why=str(error), beyond=True)
    return FoundVolume(node=node, id=id, record=record, ref=record.ref)


def _called_now(found: Iterable[FoundVolume], desired: Desired) -> Iterator[FoundVolume]:
    """A host keeps the name that a storage had when it was last told of it."""
    found = list(found)
    renamed = {
        Ref("storage", one.ref.project, one.former_name): one.ref
        for one in STORAGES.of(desired)
        if one.former_name
    }
    names: dict[str, Ref] = {}
    for one in found:
        if one.ref is not None:
            ref = one.ref if one.ref in desired.resources else renamed.get(one.ref, one.ref)
            if one.id not in names or ref in desired.resources:
                names[one.id] = ref
    for one in found:
        yield replace(one, ref=names[one.id]) if one.ref is not None else one


def _judged(one: FoundVolume, authority: Authority) -> FoundVolume:
    record = one.record
    if record is None:
        return one
    if record.id != one.id:
        why = f"its file is that of {one.id}, and it says {record.id}"
        return replace(one, why=why, beyond=True)
    return replace(one, why=doubtful(record, authority))


def _keys(one: FoundVolume) -> Iterator[tuple[Key, str]]:
    """One volume a storage, what it is the same wherever it is told of, and at one place."""
    record, ref = one.record, one.ref
    if record is None or ref is None:
        return
    yield ("storage", str(ref)), one.id
    yield ("volume", one.id), canonical([ref.project, record.class_name, record.backend])
    if not record.reaches_all:
        yield ("data", one.id), one.node
    if record.gid is not None:
        yield from numbers(ref.project, record.gid)
