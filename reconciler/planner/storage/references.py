"""References: nodes, classes and projects that existing volumes depend on."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.kinds.checks.once import once
from reconciler.model.ref import Ref
from reconciler.model.state.volume import Attachment, VolumeState
from reconciler.model.state.world import World


def users_of_data(world: World) -> Mapping[Ref, Ref]:
    """What existing data depends on: its class, its node, and the project whose gid its files
    have.
    """
    found: dict[Ref, Ref] = {}
    for ref, volume in world.volumes.items():
        if volume.state is VolumeState.GONE:
            continue
        found.setdefault(Ref("project", "", ref.project), ref)
        found.setdefault(Ref("storage_class", "", volume.class_name), ref)
        if volume.node:
            found.setdefault(Ref("node", "", volume.node), ref)
    return found


@once
def called_now(world: World) -> Mapping[str, Ref]:
    """Volume id → the present name of its storage."""
    return {volume.id: ref for ref, volume in world.volumes.items()}


def name_now(one: Attachment, world: World) -> str:
    """What the storage of an attachment is called now, whatever it was when it was attached."""
    return called_now(world).get(one.volume, one.storage).name


def attached_storages(world: World) -> frozenset[Ref]:
    """Storages that some allocation has, or may have."""
    ids = {one.volume for one in world.attachments}
    return frozenset(ref for ref, volume in world.volumes.items() if volume.id in ids)
