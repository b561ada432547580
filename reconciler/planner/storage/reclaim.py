"""Reclaim: what happens to data when documents come, change and go.

Only data whose document asked for it is wiped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from reconciler.kinds.allocation.storage import record_path
from reconciler.kinds.contract import Context
from reconciler.kinds.node.spec import NODES
from reconciler.kinds.project import PROJECTS
from reconciler.kinds.storage import STORAGES, OnDelete
from reconciler.kinds.storage_class import STORAGE_CLASSES
from reconciler.model.plan.items.storage import WipeItem
from reconciler.model.plan.plan import Action, Cause, Order, Step, step_id
from reconciler.model.plan.verb import Verb
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.rules import first_objection
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.state.volume import Volume, VolumeState
from reconciler.model.state.world import World
from reconciler.planner.core.authorship import is_operator
from reconciler.planner.core.difference import Difference, of_kind
from reconciler.planner.core.refusal import Refusal, problem_of
from reconciler.planner.core.task import Task
from reconciler.planner.storage import text as words
from reconciler.planner.storage.topology import REACH_RULES

COMES = frozenset({Action.CREATE, Action.ADOPT})
GOES = frozenset({Action.FORGET, Action.RELEASE})


def with_data(differences: Iterable[Difference], world: World) -> tuple[Difference, ...]:
    """The differences, adjusted to the data there is, in order of their refs."""
    found = {one.ref: _by_its_data(one, world) for one in differences}
    for ref, volume in world.volumes.items():
        if volume.state is VolumeState.WIPING:
            # A wipe that has begun is finished: by now nobody can say what is left.
            recorded = world.recorded.get(ref)
            found[ref] = Difference(
                ref=ref, action=Action.RELEASE, recorded=recorded, cause=Cause.CONSENTED
            )
    return tuple(sorted(found.values(), key=lambda one: one.ref))


def _by_its_data(one: Difference, world: World) -> Difference:
    if one.ref.kind != "storage":
        return one
    if one.action is Action.CREATE and one.resource is not None:
        for ref in (one.ref, one.ref._replace(name=one.resource.former_name)):
            if _state(ref, world) is VolumeState.KEPT:
                return replace(one, action=Action.ADOPT, former=ref if ref != one.ref else None)
    if one.action is Action.FORGET and one.recorded is not None:
        wipes = STORAGES.applied(one.recorded).on_delete is OnDelete.WIPE
        if wipes and _state(one.ref, world) in (VolumeState.MADE, VolumeState.PENDING):
            return replace(one, action=Action.RELEASE)
    return one


def _state(ref: Ref, world: World) -> VolumeState | None:
    volume = world.volumes.get(ref)
    return volume.state if volume else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRequest:
    """What a document asks of one storage.

    `sizes` are those in force now, and `held` is their sum in each project.
    """

    difference: Difference
    desired: Desired
    world: World
    origin: Origin
    sizes: Mapping[Ref, int]
    held: Mapping[str, int]

    @property
    def volume(self) -> Volume | None:
        """The volume of the storage, also under its former name."""
        own = self.world.volumes.get(self.difference.ref)
        former = self.difference.former
        return self.world.volumes.get(former) if former is not None else own


def refuse_storage(
    differences: Iterable[Difference],
    desired: Desired,
    world: World,
    origins: Mapping[Ref, Origin],
) -> Mapping[Ref, Problem]:
    """The first objection to each storage that would come, change or go."""
    refused: dict[Ref, Problem] = {}
    sizes = dict(_sizes(world))
    held: Counter[str] = Counter()
    for ref, size in sizes.items():
        held[ref.project] += size
    for one in of_kind(differences, "storage"):
        origin = origins.get(one.ref, Origin())
        wish = StorageRequest(
            difference=one, desired=desired, world=world, origin=origin, sizes=sizes, held=held
        )
        if found := first_objection(RULES, wish):
            why = Refusal(found.code, found.why, HINTS[found.code])
            refused[one.ref] = problem_of(one, why)
            continue
        before = one.former or one.ref
        held[before.project] -= sizes.pop(before, 0)
        if one.resource is not None:
            sizes[one.ref] = one.resource.spec.size_gib
            held[one.ref.project] += one.resource.spec.size_gib
    return refused


def _sizes(world: World) -> Iterable[tuple[Ref, int]]:
    """Sizes that are recorded or kept both count: both take room."""
    for ref, volume in world.volumes.items():
        if volume.state is not VolumeState.GONE:
            yield ref, volume.size_gib
    for recorded in STORAGES.recorded(world):
        yield recorded.ref, STORAGES.applied(recorded).size_gib


def _pinned_by_nobody(wish: StorageRequest) -> str:
    one, resource = wish.difference, wish.difference.resource
    if resource is None or one.action not in COMES or not resource.spec.node:
        return ""
    if is_operator(wish.origin, wish.desired, wish.world):
        return ""
    who = wish.origin.email or wish.origin.author or "somebody unknown"
    return f"only an operator may pin a node, and {who} wrote this"


def _in_use(wish: StorageRequest) -> str:
    volume, goes = wish.volume, wish.difference.action in GOES
    if volume is None or not goes:
        return ""
    having = wish.world.attachments_of(volume.id)
    return f"{words.who(having)} it" if having else ""


def _out_of_reach(wish: StorageRequest) -> str:
    """Data that nobody can be asked to wipe is not recorded as to be wiped."""
    volume, goes = wish.volume, wish.difference.action is Action.RELEASE
    if volume is None or not goes or _wiper(volume, wish.world, wish.desired):
        return ""
    return "no node answers that could wipe its data"


def _name_taken(wish: StorageRequest) -> str:
    """Why a name is taken: one storage has it, kept data has it, or data under it is being
    wiped.
    """
    one, volume = wish.difference, wish.volume
    if one.action is not Action.RENAME:
        return ""
    if volume is not None and volume.state is VolumeState.WIPING:
        return f"the data of {one.former} is being wiped"
    taken = _state(one.ref, wish.world) is not None
    return f"data is kept under the name {one.ref.name}" if taken else ""


def _adopted_otherwise(wish: StorageRequest) -> str:
    """Kept data comes back only as what it is."""
    resource, volume = wish.difference.resource, wish.volume
    if wish.difference.action is not Action.ADOPT or resource is None or volume is None:
        return ""
    class_ = STORAGE_CLASSES.get(wish.desired, resource.spec.class_)
    if class_ is None or class_.spec.backend != volume.backend:
        return f"its data lies in class {volume.class_name}, not in {resource.spec.class_}"
    if resource.spec.size_gib < volume.size_gib:
        return f"its data has {volume.size_gib} GiB, and it can only grow"
    if resource.spec.node and volume.node not in ("", resource.spec.node):
        return f"its data lies on {volume.node}"
    return ""


def _over_quota(wish: StorageRequest) -> str:
    one, resource = wish.difference, wish.difference.resource
    project = PROJECTS.get(wish.desired, one.ref.project)
    if resource is None or project is None:
        return ""
    before = wish.sizes.get(one.former or one.ref, 0)
    counted = before if one.action is not Action.CREATE else 0
    more, most = resource.spec.size_gib - counted, project.spec.quota.storage_gib
    held = wish.held.get(one.ref.project, 0)
    if more <= 0 or held + more <= most:
        return ""
    return f"project {one.ref.project} holds {held} GiB, {more} more would exceed its {most}"


RULES: Mapping[str, Callable[[StorageRequest], str]] = MappingProxyType(
    {
        "operator_only": _pinned_by_nobody,
        "storage_in_use": _in_use,
        "host_unreachable": _out_of_reach,
        "rename_unsound": _name_taken,
        "adopt_unsound": _adopted_otherwise,
        "quota_exceeded": _over_quota,
    }
)
"""Code → why the storage may not come, change or go, in this order; '' if it may."""

HINTS: Mapping[str, str] = MappingProxyType(
    {
        "operator_only": "take spec.node out, or ask an operator",
        "storage_in_use": "take it out of their spec.storage and apply that first; who leaves by"
        " this plan has to be gone first",
        "host_unreachable": "see which nodes answer: gpuaas node list",
        "rename_unsound": "take it back or wipe it first, or take another name",
        "adopt_unsound": "name it as it was, apply that, then change the rest",
        "quota_exceeded": "remove some, kept data counts as well, or have storageGiB of the quota"
        " raised",
    }
)


def find_wipes(changed: Mapping[Ref, Difference], context: Context) -> Iterator[Task]:
    """The facts of each storage that changes, and the wipe of its data where it is to go."""
    for difference in of_kind(changed.values(), "storage"):
        volume = context.world.volumes.get(difference.former or difference.ref)
        wiped = difference.action is Action.RELEASE and volume is not None
        yield Task(
            difference=difference,
            steps=_wiping(volume, context) if wiped and volume else (),
            facts=words.storage_facts(difference, volume, context),
        )


def _wiping(volume: Volume, context: Context) -> tuple[Step, ...]:
    node = _wiper(volume, context.world, context.desired)
    record = record_path(volume.id)
    return (
        Step(
            id=step_id(node, Verb.WIPE, volume.ref, volume.id),
            verb=Verb.WIPE,
            node=node,
            ref=volume.ref,
            order=Order.RETIRE,
            item=WipeItem(volume=volume.id, backend=volume.backend, record=record),
            expected={record: None},
        ),
    )


def _wiper(volume: Volume, world: World, desired: Desired) -> str:
    """The node that wipes: that of the data; else one that answers and can have it.

    A node that cannot have the data is not trusted with a wipe: it would say that all is gone. Only
    where no node can any more, the last one that shows the data does it.
    """
    if volume.node:
        return volume.node
    able = {one.ref.name for one in NODES.of(desired) if _reaches(one.ref.name, volume, desired)}
    shown = {
        name: seen.facts.paths or {}
        for name, seen in sorted(world.observations.items())
        if seen.facts is not None and not seen.problem and NODES.get(desired, name)
    }
    had = [name for name, paths in shown.items() if record_path(volume.id) in paths]
    asked = [name for name in (*had, *shown) if name in able] if able else had
    return next(iter(asked), "")


def _reaches(name: str, volume: Volume, desired: Desired) -> bool:
    class_, node = STORAGE_CLASSES.get(desired, volume.class_name), NODES.get(desired, name)
    if class_ is None or node is None:
        return False
    need = class_.spec.need(volume.class_name, volume.ref.name, "")
    return first_objection(REACH_RULES, name, node.spec, need) is None
