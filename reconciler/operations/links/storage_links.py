"""Links of storage, seen from both sides: what an allocation has, and who has a storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reconciler.model.ref import Ref
from reconciler.model.state.volume import Attachment, Volume, VolumeState
from reconciler.model.state.world import World
from reconciler.operations.links.case import Link, WhyCase
from reconciler.planner.storage.references import called_now, name_now


def facts_of(ref: Ref, world: World) -> Mapping[str, str]:
    """The lines that `show` begins with; nothing where there is nothing to tell."""
    if ref.kind == "allocation":
        had = [
            f"{name_now(one, world)} ({one.mode}, at {one.mount_path})" for one in _had(ref, world)
        ]
        return {"storage": ", ".join(had)} if had else {}
    volume = world.volumes.get(ref)
    if volume is None:
        return {}
    having = [
        f"{one.ref} ({one.mode}, on {one.node}, at {one.mount_path})" for one in _by(volume, world)
    ]
    owner = f", owner {volume.owner}" if volume.state is VolumeState.KEPT else ""
    return {
        "data": f"{volume.state} since {volume.since}{owner}, {_size(volume)}",
        "attached": ", ".join(having) or "to nobody",
    }


def had(case: WhyCase) -> Iterator[Link]:
    """What an allocation has, or may have."""
    names = called_now(case.world)
    for one in _had(case.ref, case.world) if case.ref.kind == "allocation" else ():
        ref = names.get(one.volume, one.storage)
        volume = case.world.volumes.get(ref)
        size = f", {_size(volume)}" if volume else ""
        text = f"{ref} {one.mode} at {one.mount_path}{size}"
        command = f"gpuaas storage show {ref.project}/{ref.name}"
        yield Link(about="has", text=text, command=command)


def stored(case: WhyCase) -> Iterator[Link]:
    """Where the data of a storage lies."""
    volume = case.world.volumes.get(case.ref)
    if volume is None:
        return
    owner = f", ask {volume.owner}" if volume.state is VolumeState.KEPT else ""
    text = f"{volume.state} since {volume.since}{owner}: volume {volume.id}, {_size(volume)}"
    command = f"gpuaas storage show {case.ref.project}/{case.ref.name}"
    yield Link(about="data", text=text, command=command)


def attached(case: WhyCase) -> Iterator[Link]:
    """Who has a storage, or may have it."""
    volume = case.world.volumes.get(case.ref)
    for one in _by(volume, case.world) if volume else ():
        text = f"{one.ref} {one.mode} at {one.mount_path} on {one.node}"
        yield Link(about="attached", text=text, command=f"gpuaas show {one.ref}")


def _had(ref: Ref, world: World) -> list[Attachment]:
    return [one for one in world.attachments if one.ref == ref]


def _by(volume: Volume, world: World) -> Sequence[Attachment]:
    return world.attachments_of(volume.id)


def _size(volume: Volume) -> str:
    where = f"on {volume.node}" if volume.node else "on every node of its class"
    return f"{volume.size_gib} GiB {where}"
