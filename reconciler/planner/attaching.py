"""Attaching: which allocations join which storages by this plan, and why one may not.

What a plan takes away itself still counts in it as it was: whoever waits for it joins by the next
one. Each join that is let through is seen by those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from reconciler.kinds.allocation_storage import ATTACH, DETACH
from reconciler.kinds.storage import AccessMode
from reconciler.model.capacity import Need, StorageNeed
from reconciler.model.desired import Desired
from reconciler.model.plan import Action, Step
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.resource import Resource
from reconciler.model.volume import Attachment, Volume, VolumeIntent, VolumeState
from reconciler.model.world import DoubtKind, World
from reconciler.planner.diff import Difference
from reconciler.planner.identity import allocation_id
from reconciler.planner.limits import absence
from reconciler.planner.reach import REACH_RULES

STAYS = frozenset(
    {Action.CHANGE, Action.RESTART, Action.RESTORE, Action.RENAME, Action.ADOPT},
)
"""Actions by which an allocation that has its place may join a storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """One storage that an allocation is to have and does not have so yet.

    `id` and `node` are empty as long as it has no place; `replaces` is the id of the one that it
    takes the place of. It is `known` where the allocation was recorded with it.
    """

    resource: Resource
    storage: Resource
    class_: Resource
    mode: str
    id: str = ""
    node: Resource | None = None
    replaces: str = ""
    known: bool = False


class Joining:
    """What storages are made of and who has them, while joins are let through one by one.

    `desired` is what will be in force; `names` maps refs of the world to those that they will have.
    """

    def __init__(self, desired: Desired, world: World, names: Mapping[Ref, Ref]) -> None:
        self.desired = desired
        self.world = world
        self.volumes = {
            names.get(ref, ref): one
            for ref, one in world.volumes.items()
            if one.state is not VolumeState.GONE
        }
        self.attachments = list(world.attachments)
        self.begun: dict[str, VolumeIntent] = {}
        self.unseen = [d.node for d in world.doubts if d.kind is DoubtKind.UNSEEN]

    def located(self, need: Need) -> Need:
        """The need, with the node of each storage whose data lies, or is to lie, on one."""
        return replace(
            need,
            storage=tuple(
                replace(one, node=(self._volume(need.project, one.name) or one).node or one.node)
                for one in need.storage
            ),
        )

    def refusal(
        self, difference: Difference, id: str = "", node: Resource | None = None
    ) -> Problem | None:
        """The first objection to anything that the allocation would join; `id` once it has one."""
        for join in self._joins(difference, id, node):
            for code, rule in RULES.items():
                if message := rule(join, self):
                    return self._problem(code, message, join)
        return None

    def take(self, difference: Difference, id: str, node: Resource) -> None:
        """All that it joins is its own from now on; what no volume is there for gets one."""
        for join in self._joins(difference, id, node):
            ref = join.storage.ref
            volume = self.volumes.get(ref) or self._begin(join, node)
            self.attachments = [
                one
                for one in self.attachments
                if (one.allocation_id, one.volume) != (id, volume.id)
            ]
            self.attachments.append(
                Attachment(
                    allocation_id=id,
                    volume=volume.id,
                    ref=difference.ref,
                    storage=ref,
                    node=node.ref.name,
                    mode=join.mode,
                    access=str(join.storage.spec.access_mode),
                    mount_path="",
                )
            )

    def others(self, join: Join) -> list[Attachment]:
        """Who else has the storage, or may have it."""
        volume = self.volumes.get(join.storage.ref)
        return [
            one
            for one in self.attachments
            if volume and one.volume == volume.id and one.allocation_id != join.id
        ]

    def need_of(self, join: Join) -> StorageNeed:
        volume, pin = self.volumes.get(join.storage.ref), join.storage.spec.node or ""
        node = (volume.node if volume else "") or pin
        need: StorageNeed = join.class_.spec.need(join.class_.ref.name, join.storage.ref.name, node)
        return need

    def _volume(self, project: str, name: str) -> Volume | None:
        return self.volumes.get(Ref("storage", project, name))

    def _begin(self, join: Join, node: Resource) -> Volume:
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

    def _joins(self, difference: Difference, id: str, node: Resource | None) -> Iterator[Join]:
        resource, recorded = difference.resource, difference.recorded
        if resource is None or resource.ref.kind != "allocation":
            return
        before = recorded.normal["spec"].get("storage", ()) if recorded else ()
        named = {str(one["name"]) for one in before}
        replaces = recorded.id if recorded and difference.action is Action.REPLACE else ""
        for one in resource.spec.storage:
            storage = self.desired.resources.get(Ref("storage", resource.ref.project, one.name))
            class_ = self.desired.get("storage_class", storage.spec.class_) if storage else None
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

    def _has(self, join: Join) -> bool:
        """Whether it has it so already; what it was cut off from it is not given a second time."""
        volume = self.volumes.get(join.storage.ref)
        if volume is None or not join.id:
            return False
        if join.id in volume.fenced and join.known:
            return True
        return any(
            (one.allocation_id, one.volume, one.mode) == (join.id, volume.id, join.mode)
            for one in self.attachments
        )

    def _problem(self, code: str, message: str, join: Join) -> Problem:
        holders = {one.allocation_id for one in self.others(join)}
        if code in SHARED and join.replaces and holders == {join.replaces}:
            code, hint = "release_first", "remove it, apply that, and then ask for it anew"
        else:
            hint = HINTS[code]
        return Problem(
            code=code,
            message=f"{join.storage.ref}: {message}",
            hint=hint.format(storage=f"{join.storage.ref.project}/{join.storage.ref.name}"),
            source=join.resource.source("spec", "storage", join.storage.ref.name),
            ref=str(join.resource.ref),
        )


def refuse_joins(
    differences: Iterable[Difference], refused: Mapping[Ref, Problem], joining: Joining
) -> Mapping[Ref, Problem]:
    """The problem of each allocation that stays in its place and may not join what it names."""
    found: dict[Ref, Problem] = {}
    absent = {ref: one for ref, one in refused.items() if ref not in joining.world.recorded}
    for difference in differences:
        resource, recorded = difference.resource, difference.recorded
        if difference.ref in refused or difference.action not in STAYS:
            continue
        if resource is None or recorded is None or not recorded.id:
            continue
        node = joining.desired.get("node", recorded.node)
        problem = absence(resource, absent) or joining.refusal(difference, recorded.id, node)
        if problem is not None:
            found[difference.ref] = problem
        elif node is not None:
            joining.take(difference, recorded.id, node)
    return found


def attachments_of(steps: Iterable[Step], world: World) -> tuple[Attachment, ...]:
    """What is to be written down before hosts are asked to attach it."""
    known = {
        (a.allocation_id, a.volume, a.storage.name, a.mode, a.mount_path): a
        for a in world.attachments
    }
    found = []
    for step in steps:
        for one in step.item["volumes"] if step.verb == ATTACH else ():
            same = (step.item["id"], one["id"], one["name"], one["mode"], one["mountPath"])
            if same not in known:
                found.append(
                    Attachment(
                        allocation_id=step.item["id"],
                        volume=one["id"],
                        ref=step.ref,
                        storage=Ref("storage", step.ref.project, one["name"]),
                        node=step.node,
                        mode=one["mode"],
                        access=one["access"],
                        mount_path=one["mountPath"],
                    )
                )
    return tuple(sorted(found, key=lambda one: (one.volume, one.allocation_id)))


def begun_by(attachments: Iterable[Attachment], joining: Joining) -> tuple[VolumeIntent, ...]:
    """The volumes that are begun by them, by id."""
    ids = {one.volume for one in attachments} & joining.begun.keys()
    return tuple(joining.begun[id] for id in sorted(ids))


def after_detaching(steps: Iterable[Step]) -> Mapping[str, frozenset[str]]:
    """What is attached in another way from now on comes once it was seen to be detached."""
    gone = {
        (step.item["id"], one["id"]): step.id
        for step in steps
        if step.verb == DETACH
        for one in step.item["volumes"]
    }
    waits = {}
    for step in steps if gone else ():
        if step.verb == ATTACH:
            had = {gone.get((step.item["id"], one["id"]), "") for one in step.item["volumes"]}
            waits[step.id] = frozenset(had - {""})
    return waits


def _missing(join: Join, joining: Joining) -> str:
    """Unknown is not absent: what may lie somewhere is not made a second time."""
    if joining.volumes.get(join.storage.ref) is not None:
        return ""
    if join.known:
        return "it was in use, and nobody knows where its data lies"
    unseen = ", ".join(joining.unseen)
    return f"its data may lie on {unseen}, where nobody has looked" if unseen else ""


def _wiping(join: Join, joining: Joining) -> str:
    volume = joining.volumes.get(join.storage.ref)
    return "its data is being wiped" if volume and volume.state is VolumeState.WIPING else ""


def _conflicts(join: Join, joining: Joining) -> str:
    volume, others = joining.volumes.get(join.storage.ref), joining.others(join)
    if volume is not None and join.id in volume.fenced:
        return f"{join.resource.ref} was cut off from it by somebody's word"
    mode = join.storage.spec.access_mode
    if mode is AccessMode.MULTI_READER:
        others = [one for one in others if "rw" == one.mode == join.mode]
    elif mode is AccessMode.MULTI_WRITER:
        others = []
    return f"it is {mode}, and {_who(others)} it" if others else ""


def _over_limit(join: Join, joining: Joining) -> str:
    others, most = joining.others(join), join.class_.spec.max_attachments
    if len(others) < most:
        return ""
    return f"class {join.class_.ref.name} allows {most} at one time, and {_who(others)} it"


def _out_of_reach(code: str, join: Join, joining: Joining) -> str:
    """Where it has no place yet, placement asks the same of every node."""
    if join.node is None:
        return ""
    return REACH_RULES[code](join.node.ref.name, join.node.spec, joining.need_of(join))


def _who(others: Iterable[Attachment]) -> str:
    told = [f"{one.ref} ({one.mode}, on {one.node})" for one in others]
    return f"{', '.join(told)} {'has' if len(told) == 1 else 'have'}"


RULES: Mapping[str, Callable[[Join, Joining], str]] = MappingProxyType(
    {
        "storage_missing": _missing,
        "storage_wiping": _wiping,
        "writer_conflict": _conflicts,
        "attach_limit": _over_limit,
        **{code: partial(_out_of_reach, code) for code in REACH_RULES},
    }
)
"""Code → why a storage cannot be joined, in this order; '' if it can."""

SHARED = frozenset({"writer_conflict", "attach_limit"})
"""Codes that somebody else's having it is the reason of."""

HINTS: Mapping[str, str] = MappingProxyType(
    {
        "storage_missing": "take in what lies there: gpuaas state rebuild",
        "storage_wiping": "wait for the end of that, or name another storage",
        "writer_conflict": "detach it there and apply that first; of a host that is gone for good:"
        " gpuaas storage fence {storage} --from ALLOCATION --reason TEXT",
        "attach_limit": "detach it somewhere and apply that first",
        "class_not_available": "take a storage of a class that is there, or another node",
        "storage_backend_unfit": "take a storage of a directory class, or a node with accounts",
        "storage_on_other_node": "place it where the data is: gpuaas storage show {storage}",
    }
)
