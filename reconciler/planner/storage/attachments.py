"""Attachments: what storages are made of and who has them, while requests are let in one by one.

What a plan takes away itself still counts in it as it was: whoever waits for it joins by the next
one. Each join that is let through is seen by those after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.node.spec import NodeSpec
from reconciler.kinds.storage import StorageSpec
from reconciler.kinds.storage_class import STORAGE_CLASSES, StorageClassSpec
from reconciler.model.host.capacity import Need, StorageNeed
from reconciler.model.plan.plan import Action
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.volume import Attachment, Volume, VolumeIntent, VolumeState
from reconciler.model.state.world import DoubtKind, World
from reconciler.planner.core.difference import Difference
from reconciler.planner.identity.identity import allocation_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """One storage that an allocation is to have and does not have yet in this way.

    `id` and `node` are empty as long as it has no place; `replaces` is the id of the allocation it
    replaces. It is `known` where the allocation was recorded with it.
    """

    resource: Resource
    storage: Resource[StorageSpec]
    class_: Resource[StorageClassSpec]
    mode: str
    id: str = ""
    node: Resource[NodeSpec] | None = None
    replaces: str = ""
    known: bool = False


class AttachmentLedger:
    """`desired` is what will be in force; `names` maps refs of the world to those that come."""

    def __init__(self, desired: Desired, world: World, names: Mapping[Ref, Ref]) -> None:
        self.desired = desired
        self.world = world
        self.volumes = {
            names.get(ref, ref): one
            for ref, one in world.volumes.items()
            if one.state is not VolumeState.GONE
        }
        self.having: dict[str, dict[str, Attachment]] = defaultdict(dict)
        for one in world.attachments:
            self.having[one.volume][one.allocation_id] = one
        self.begun: dict[str, VolumeIntent] = {}
        self.unseen = [d.node for d in world.doubts if d.kind is DoubtKind.UNSEEN]

    def located(self, need: Need) -> Need:
        """The need, with the node of each storage whose data is, or will be, on one."""
        return replace(
            need,
            storage=tuple(
                replace(one, node=(self._volume(need.project, one.name) or one).node or one.node)
                for one in need.storage
            ),
        )

    def take(self, difference: Difference, id: str, node: Resource[NodeSpec]) -> None:
        """Give the allocation everything that it attaches, and begin a volume where there is
        none.
        """
        for join in self.joins(difference, id, node):
            ref = join.storage.ref
            volume = self.volumes.get(ref) or self._begin(join, node)
            self.having[volume.id][id] = Attachment(
                allocation_id=id,
                volume=volume.id,
                ref=difference.ref,
                storage=ref,
                node=node.ref.name,
                mode=join.mode,
                access=str(join.storage.spec.access_mode),
                mount_path="",
            )

    def others(self, join: Join) -> list[Attachment]:
        """The other allocations that have the storage, or may have it."""
        volume = self.volumes.get(join.storage.ref)
        having = self.having.get(volume.id, {}) if volume else {}
        return [one for id, one in having.items() if id != join.id]

    def need_of(self, join: Join) -> StorageNeed:
        volume, pin = self.volumes.get(join.storage.ref), join.storage.spec.node or ""
        node = (volume.node if volume else "") or pin
        need: StorageNeed = join.class_.spec.need(join.class_.ref.name, join.storage.ref.name, node)
        return need

    def _volume(self, project: str, name: str) -> Volume | None:
        return self.volumes.get(Ref("storage", project, name))

    def _begin(self, join: Join, node: Resource[NodeSpec]) -> Volume:
        storage, class_ = join.storage, join.class_
        count = self.world.counters.incarnation(storage.ref)
        volume = Volume(
            id=allocation_id(self.world.state_id, storage.ref, count + 1),
            ref=storage.ref,
            class_name=class_.ref.name,
            backend=class_.spec.backend,
            node="" if class_.spec.reaches_all else node.ref.name,
            size_gib=storage.spec.size_gib,
        )
        self.volumes[storage.ref] = volume
        self.begun[volume.id] = VolumeIntent(
            id=volume.id,
            ref=volume.ref,
            class_name=volume.class_name,
            backend=volume.backend,
            node=volume.node,
            size_gib=volume.size_gib,
        )
        return volume

    def joins(
        self, difference: Difference, id: str, node: Resource[NodeSpec] | None
    ) -> Iterator[Join]:
        """What the allocation names and does not have this way; all of it where it has no id
        yet.
        """
        resource, recorded = ALLOCATIONS.own(difference.resource), difference.recorded
        if resource is None:
            return
        before = ALLOCATIONS.applied(recorded).storage if recorded else ()
        named = {one.name for one in before}
        replaces = recorded.id if recorded and difference.action is Action.REPLACE else ""
        for one in resource.spec.storage:
            storage = self.desired.resources.get(Ref("storage", resource.ref.project, one.name))
            class_ = STORAGE_CLASSES.get(self.desired, storage.spec.class_) if storage else None
            if storage is None or class_ is None:
                continue
            join = Join(
                resource=resource,
                storage=storage,
                class_=class_,
                mode=str(one.mode),
                id=id,
                node=node,
                replaces=replaces,
                known=one.name in named,
            )
            if not self._has(join):
                yield join

    def unknown(self, difference: Difference) -> Iterator[Ref]:
        """What the allocation names and nobody can read."""
        resource = difference.resource
        for one in resource.spec.storage if resource else ():
            ref = Ref("storage", difference.ref.project, one.name)
            storage = self.desired.resources.get(ref)
            if storage is None or not STORAGE_CLASSES.get(self.desired, storage.spec.class_):
                yield ref

    def _has(self, join: Join) -> bool:
        """Whether it has the storage this way already; what it was fenced from is not given
        again.
        """
        volume = self.volumes.get(join.storage.ref)
        if volume is None or not join.id:
            return False
        if join.id in volume.fenced and join.known:
            return True
        one = self.having.get(volume.id, {}).get(join.id)
        return one is not None and one.mode == join.mode
