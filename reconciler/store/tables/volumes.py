"""Volumes: begun before any host is touched, made once a host shows them, kept by default.

What becomes of data is never concluded from a document alone: a volume is gone when a host has
shown that it is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from reconciler.model.canonical import canonical
from reconciler.model.plan.items.storage import AttachItem, WipeItem
from reconciler.model.plan.work import WaveIntent, WaveOutcome
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.state.event import EventType
from reconciler.model.state.volume import Volume, VolumeIntent, VolumeState
from reconciler.model.state.world import Recorded
from reconciler.store.registry.contract import Table
from reconciler.store.rows import stored_ref
from reconciler.store.tables import storage_usage
from reconciler.store.tables.accounts import end_gids
from reconciler.store.transaction import EventDraft, Record

EVENTS: Mapping[VolumeState, EventType] = {
    VolumeState.PENDING: EventType.VOLUME_PENDING,
    VolumeState.MADE: EventType.VOLUME_MADE,
    VolumeState.KEPT: EventType.VOLUME_KEPT,
    VolumeState.WIPING: EventType.VOLUME_WIPING,
    VolumeState.GONE: EventType.VOLUME_GONE,
}

_READ = (
    "SELECT id, storage, class, backend, node, size_gib, state, since, owner,"
    " (SELECT json_group_array(allocation_id) FROM (SELECT DISTINCT allocation_id FROM fence"
    " WHERE volume = volume.id ORDER BY allocation_id))"
    " FROM volume WHERE {where} ORDER BY storage"
)


def read_volumes(connection: sqlite3.Connection) -> Mapping[Ref, Volume]:
    """Volumes by their storage; those that are gone are left out."""
    return {one.ref: one for one in stored(connection, "state <> 'gone'")}


def stored(connection: sqlite3.Connection, where: str) -> Iterator[Volume]:
    rows = connection.execute(_READ.format(where=where))
    for id_, text, class_, backend, node, size, state, since, owner, fenced in rows:
        yield Volume(
            id=id_,
            ref=stored_ref(text),
            class_name=class_,
            backend=json.loads(backend),
            node=node,
            size_gib=size,
            state=VolumeState(state),
            since=since,
            owner=owner,
            fenced=tuple(json.loads(fenced)),
        )


def hold(record: Record, intent: WaveIntent) -> None:
    make(record, intent.joining.volumes)


def make(record: Record, intents: Iterable[VolumeIntent]) -> None:
    """Each is the next incarnation of its storage; as long as no host has it, it may be resized."""
    for one in intents:
        if not _exists(record, one.id):
            _begin(record, one)
        record.connection.execute(
            "UPDATE volume SET size_gib = ? WHERE id = ? AND made = '' AND size_gib <> ?",
            (one.size_gib, one.id, one.size_gib),
        )


def _exists(record: Record, id_: str) -> bool:
    query = "SELECT 1 FROM volume WHERE id = ?"
    return record.connection.execute(query, (id_,)).fetchone() is not None


def _begin(record: Record, one: VolumeIntent) -> None:
    after = {"volume": one.id, "class": one.class_name, "node": one.node, "sizeGiB": one.size_gib}
    (event,) = record.write(EventDraft(type=EventType.VOLUME_PENDING, ref=one.ref, after=after))
    record.connection.execute(
        "INSERT INTO volume (id, storage, class, backend, node, size_gib, state, since, event)"
        " VALUES (?, ?, ?, ?, ?, ?, 'pending', ?, ?)",
        (
            one.id,
            str(one.ref),
            one.class_name,
            canonical(dict(one.backend)),
            one.node,
            one.size_gib,
            record.at,
            event,
        ),
    )
    record.connection.execute(
        "INSERT INTO incarnation (ref, count)"
        " SELECT ?1, 1 + max(coalesce((SELECT count FROM incarnation WHERE ref = ?1), 0),"
        " coalesce((SELECT number FROM counter_floor WHERE counter = 'incarnation'), 0)) WHERE true"
        " ON CONFLICT (ref) DO UPDATE SET count = excluded.count",
        (str(one.ref),),
    )


def conclude(record: Record, wave: WaveOutcome) -> None:
    """Write what hosts have shown: attached volumes are made, with the size they were told."""
    for outcome in wave.steps:
        item = outcome.step.item
        if outcome.ok and isinstance(item, AttachItem):
            for told in item.volumes:
                made(record, told.id, told.size_gib)
        elif outcome.ok and isinstance(item, WipeItem):
            become(record, [item.volume], VolumeState.GONE)
            storage_usage.end(record, item.volume)
            _end_gid(record, outcome.step.ref)


def made(record: Record, id_: str, size_gib: int) -> None:
    """A host has shown it, and it is billed from then on; as large as it has grown."""
    before, size, ref = record.connection.execute(
        "SELECT made, size_gib, storage FROM volume WHERE id = ?", (id_,)
    ).fetchone()
    if not before:
        become(record, [id_], VolumeState.MADE)
    if size_gib > size:
        record.write(
            EventDraft(
                type=EventType.VOLUME_GROWN,
                ref=parse_ref(ref),
                before={"sizeGiB": size},
                after={"volume": id_, "sizeGiB": size_gib},
            )
        )
        record.connection.execute("UPDATE volume SET size_gib = ? WHERE id = ?", (size_gib, id_))
    storage_usage.begin(record, id_)


def in_hand(connection: sqlite3.Connection, refs: Collection[str]) -> frozenset[str]:
    """Those whose data is attached or being wiped: they stay on the books."""
    rows = connection.execute(
        "SELECT storage FROM volume v JOIN json_each(?) ON v.storage = value"
        " WHERE v.state = 'wiping'"
        " OR EXISTS (SELECT 1 FROM attachment WHERE volume = v.id AND ended = '')",
        (canonical(sorted(refs)),),
    )
    return frozenset(ref for (ref,) in rows)


def leave(record: Record, forgotten: Iterable[Ref]) -> None:
    """Their documents go, their data does not. Called while their projects are still recorded."""
    for ref in forgotten:
        for id_ in _ids(record, ref, "state IN ('pending', 'made')"):
            owner = _owners(record, ref.project)
            record.connection.execute("UPDATE volume SET owner = ? WHERE id = ?", (owner, id_))
            become(record, [id_], VolumeState.KEPT)


def keep(record: Record, recorded: Sequence[Recorded]) -> None:
    """A document names them again: they are what they were, and still to be made if they were."""
    for ref in [one.ref for one in recorded if one.ref.kind == "storage"]:
        for id_ in _ids(record, ref, "state = 'kept' AND made <> ''"):
            become(record, [id_], VolumeState.MADE)
        for id_ in _ids(record, ref, "state = 'kept' AND made = ''"):
            become(record, [id_], VolumeState.PENDING)


def forget(record: Record, gone: Sequence[Ref]) -> None:
    """The number of a project stays for as long as files bear it."""
    ended = [ref for ref in gone if ref.kind == "project"]
    bearing = projects(record.connection) if ended else ()
    end_gids(record, [ref for ref in ended if ref.name not in bearing])


def rename(record: Record, former: Ref, ref: Ref) -> None:
    record.connection.execute(
        "UPDATE volume SET storage = ? WHERE storage = ? AND state <> 'gone'",
        (str(ref), str(former)),
    )


def rebuild(record: Record, volumes: Sequence[Volume]) -> None:
    """What hosts have told of is made, and kept if its storage is not recorded."""
    for one in volumes:
        make(
            record,
            [
                VolumeIntent(
                    id=one.id,
                    ref=one.ref,
                    class_name=one.class_name,
                    backend=one.backend,
                    node=one.node,
                    size_gib=one.size_gib,
                )
            ],
        )
        made(record, one.id, one.size_gib)
    leave(record, [one.ref for one in volumes if one.state is VolumeState.KEPT])


def projects(connection: sqlite3.Connection) -> frozenset[str]:
    """Those whose files lie somewhere, with the number of their group on them."""
    rows = connection.execute("SELECT storage FROM volume WHERE state <> 'gone'")
    return frozenset(stored_ref(text).project for (text,) in rows)


def become(record: Record, ids: Sequence[str], state: VolumeState) -> None:
    for id_ in ids:
        ref, before, owner = record.connection.execute(
            "SELECT storage, state, owner FROM volume WHERE id = ?", (id_,)
        ).fetchone()
        kept = {"owner": owner} if state is VolumeState.KEPT else {}
        record.write(
            EventDraft(
                type=EVENTS[state],
                ref=parse_ref(ref),
                before={"state": before},
                after={"volume": id_, **kept},
            )
        )
        record.connection.execute(
            "UPDATE volume SET state = ?1, since = ?2,"
            " made = CASE WHEN ?1 = 'made' AND made = '' THEN ?2 ELSE made END WHERE id = ?3",
            (state.value, record.at, id_),
        )


def _ids(record: Record, ref: Ref, where: str) -> list[str]:
    query = f"SELECT id FROM volume WHERE storage = ? AND {where} ORDER BY id"
    return [id_ for (id_,) in record.connection.execute(query, (str(ref),))]


def _owners(record: Record, project: str) -> str:
    """Whom to ask about it: the owners of its project, as it was applied last."""
    rows = record.connection.execute(
        "SELECT json_extract(member.value, '$.user') FROM resource"
        " JOIN json_each(normal, '$.spec.members') member"
        " WHERE ref = ? AND json_extract(member.value, '$.role') = 'owner' ORDER BY 1",
        (f"project/{project}",),
    )
    return ", ".join(user for (user,) in rows)


def _end_gid(record: Record, ref: Ref) -> None:
    """With the last of its files the number of a project that is no longer there ends as well."""
    project = Ref("project", "", ref.project)
    query = "SELECT 1 FROM resource WHERE ref = ?"
    known = record.connection.execute(query, (str(project),)).fetchone()
    if not known and ref.project not in projects(record.connection):
        end_gids(record, [project])


TABLE = Table(
    hold=hold,
    conclude=conclude,
    keep=keep,
    stays=in_hand,
    leave=leave,
    forget=forget,
    rename=rename,
    read={"volumes": read_volumes},
)
