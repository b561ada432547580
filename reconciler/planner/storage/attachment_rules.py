"""Attachment rules: why an allocation may not attach a storage, and what is recorded if it may."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from reconciler.kinds.node.spec import NODES, NodeSpec
from reconciler.kinds.storage import AccessMode
from reconciler.model.plan.items.storage import AttachItem, DetachItem
from reconciler.model.plan.plan import Action, Plan, Step
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.rules import first_objection
from reconciler.model.spec.resource import Resource
from reconciler.model.state.volume import Attachment, Joining, VolumeIntent, VolumeState
from reconciler.model.state.world import World
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.refusal import Refusal, absence, problem_of
from reconciler.planner.storage.attachments import AttachmentLedger, Join
from reconciler.planner.storage.text import who
from reconciler.planner.storage.topology import REACH_RULES

STAYS = frozenset(
    {Action.CHANGE, Action.RESTART, Action.RESTORE, Action.RENAME, Action.ADOPT},
)
"""Actions by which an allocation that has its place may join a storage."""


def refusal(
    ledger: AttachmentLedger,
    difference: Difference,
    id: str = "",
    node: Resource[NodeSpec] | None = None,
) -> Problem | None:
    """The first objection to what the allocation would attach; `id` once it has one."""
    for storage in ledger.unknown(difference):
        message = "it is not in force, and this plan does not bring it"
        return _problem("storage_missing", message, difference, storage)
    for join in ledger.joins(difference, id, node):
        if found := first_objection(RULES, join, ledger):
            code = "release_first" if _is_own_rival(found.code, join, ledger) else found.code
            return _problem(code, found.why, difference, join.storage.ref)
    return None


def _is_own_rival(code: str, join: Join, ledger: AttachmentLedger) -> bool:
    """Whether only the allocation that it replaces is in the way."""
    if code not in SHARED or not join.replaces:
        return False
    return not RULES[code](replace(join, id=join.replaces), ledger)


def _problem(code: str, message: str, difference: Difference, storage: Ref) -> Problem:
    hint = HINTS[code].format(storage=f"{storage.project}/{storage.name}")
    found = Refusal(code, f"{storage}: {message}", hint)
    return problem_of(difference, found, "spec", "storage", storage.name)


def refuse_joins(
    differences: Iterable[Difference], refused: Mapping[Ref, Problem], ledger: AttachmentLedger
) -> Mapping[Ref, Problem]:
    """The problem of each allocation that stays in its place and may not attach what it names."""
    found: dict[Ref, Problem] = {}
    absent = {ref: one for ref, one in refused.items() if ref not in ledger.world.recorded}
    for difference in differences:
        resource, recorded = difference.resource, difference.recorded
        if difference.ref in refused or difference.action not in STAYS:
            continue
        if resource is None or recorded is None or not recorded.id:
            continue
        node = NODES.get(ledger.desired, recorded.node)
        problem = absence(resource, absent) or refusal(ledger, difference, recorded.id, node)
        if problem is not None:
            found[difference.ref] = problem
        elif node is not None:
            ledger.take(difference, recorded.id, node)
    return found


def attachments_of(steps: Iterable[Step], world: World) -> tuple[Attachment, ...]:
    """The attachments to record before hosts are asked to make them."""
    known = {
        (a.allocation_id, a.volume, a.storage.name, a.mode, a.mount_path): a
        for a in world.attachments
    }
    found = []
    for step in steps:
        item = step.item
        if not isinstance(item, AttachItem):
            continue
        for one in item.volumes:
            same = (item.id, one.id, one.name, one.mode, one.mount_path)
            if same not in known:
                found.append(
                    Attachment(
                        allocation_id=item.id,
                        volume=one.id,
                        ref=step.ref,
                        storage=Ref("storage", step.ref.project, one.name),
                        node=step.node,
                        mode=one.mode,
                        access=one.access,
                        mount_path=one.mount_path,
                    )
                )
    return tuple(sorted(found, key=lambda one: (one.volume, one.allocation_id)))


def begun_by(
    attachments: Iterable[Attachment], ledger: AttachmentLedger
) -> tuple[VolumeIntent, ...]:
    """The volumes that these attachments begin, by id."""
    ids = {one.volume for one in attachments} & ledger.begun.keys()
    return tuple(ledger.begun[id] for id in sorted(ids))


def joining_by(plan: Plan, steps: Iterable[Step]) -> Joining:
    """The attachments to record before these steps of a plan begin, and of no others."""
    asked = {
        (step.item.id, one.id, one.mount_path)
        for step in steps
        if isinstance(step.item, AttachItem)
        for one in step.item.volumes
    }
    joins = tuple(
        one for one in plan.attachments if (one.allocation_id, one.volume, one.mount_path) in asked
    )
    begun = {one.volume for one in joins}
    return Joining(volumes=tuple(v for v in plan.volumes if v.id in begun), attachments=joins)


def after_detaching(steps: Iterable[Step]) -> Mapping[str, frozenset[str]]:
    """Attaching in another way waits until the detach was observed."""
    gone = {
        (step.item.id, one.id): step.id
        for step in steps
        if isinstance(step.item, DetachItem)
        for one in step.item.volumes
    }
    waits = {}
    for step in steps if gone else ():
        if isinstance(step.item, AttachItem):
            had = {gone.get((step.item.id, one.id), "") for one in step.item.volumes}
            waits[step.id] = frozenset(had - {""})
    return waits


def _missing(join: Join, ledger: AttachmentLedger) -> str:
    """Unknown is not absent: data that may exist somewhere is not made a second time."""
    if ledger.volumes.get(join.storage.ref) is not None:
        return ""
    if join.known:
        return "it was in use, and nobody knows where its data lies"
    unseen = ", ".join(ledger.unseen)
    return f"its data may lie on {unseen}, where nobody has looked" if unseen else ""


def _wiping(join: Join, ledger: AttachmentLedger) -> str:
    volume = ledger.volumes.get(join.storage.ref)
    return "its data is being wiped" if volume and volume.state is VolumeState.WIPING else ""


def _conflicts(join: Join, ledger: AttachmentLedger) -> str:
    volume, others = ledger.volumes.get(join.storage.ref), ledger.others(join)
    if volume is not None and join.id in volume.fenced:
        return f"{join.resource.ref} was cut off from it by somebody's word"
    mode = join.storage.spec.access_mode
    if mode is AccessMode.MULTI_READER:
        others = [one for one in others if "rw" == one.mode == join.mode]
    elif mode is AccessMode.MULTI_WRITER:
        others = []
    return f"it is {mode}, and {who(others)} it" if others else ""


def _over_limit(join: Join, ledger: AttachmentLedger) -> str:
    others, most = ledger.others(join), join.class_.spec.max_attachments
    if len(others) < most:
        return ""
    return f"class {join.class_.ref.name} allows {most} at one time, and {who(others)} it"


def _out_of_reach(code: str, join: Join, ledger: AttachmentLedger) -> str:
    """The storage is out of the node's reach; without a place yet, placement asks this of every
    node.
    """
    if join.node is None:
        return ""
    return REACH_RULES[code](join.node.ref.name, join.node.spec, ledger.need_of(join))


RULES: Mapping[str, Callable[[Join, AttachmentLedger], str]] = MappingProxyType(
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
        "storage_missing": "apply {storage} as well; of what was lost: gpuaas state rebuild",
        "storage_wiping": "wait for the end of that, or name another storage",
        "writer_conflict": "detach it there and apply that first; of a host that is gone for good:"
        " gpuaas storage fence {storage} --from ALLOCATION --reason TEXT",
        "attach_limit": "detach it somewhere and apply that first",
        "release_first": "remove it, apply that, and then ask for it anew",
        "class_not_available": "take a storage of a class that is there, or another node",
        "storage_backend_unfit": "take a storage of a directory class, or a node with accounts",
        "storage_on_other_node": "place it where the data is: gpuaas storage show {storage}",
    }
)
