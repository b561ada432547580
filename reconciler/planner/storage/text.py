"""What a plan says about storage: where data is, what is kept, lost, mounted and paid.

No code decides by any of these words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.contract import Context
from reconciler.kinds.storage_class import STORAGE_CLASSES, price_in_force
from reconciler.model.host.facts.attached_fact import attached_key
from reconciler.model.plan.items.storage import AttachItem, DetachItem
from reconciler.model.plan.plan import Action, Step
from reconciler.model.ref import Ref
from reconciler.model.spec.resource import Resource
from reconciler.model.state.volume import Attachment, BackendWord, Volume
from reconciler.model.state.world import Recorded, World
from reconciler.planner.core.difference import Difference

NOTHING_LASTS = "no storage: nothing outlives the release"
NOTHING_KEPT = "nothing: no storage is attached"


def who(having: Iterable[Attachment]) -> str:
    """A holder, such as `allocation/vision/a (rw, on gpu01) has`."""
    told = [f"{one.ref} ({one.mode}, on {one.node})" for one in having]
    return f"{', '.join(told)} {'has' if len(told) == 1 else 'have'}"


def lasting(resource: Resource) -> str:
    """What remains after an allocation."""
    told = [f"{one.mount_path} ({one.name}, {one.mode})" for one in resource.spec.storage]
    if not told:
        return NOTHING_LASTS
    return f"{', '.join(told)} outlive{'s' if len(told) == 1 else ''} it; home and scratch do not"


def kept(recorded: Recorded, world: World) -> str:
    """What remains of an allocation that goes."""
    entries = ALLOCATIONS.applied(recorded).storage
    told = [_kept(one.name, recorded, world) for one in entries]
    return f"storage {', '.join(told)}" if told else NOTHING_KEPT


def _kept(name: str, recorded: Recorded, world: World) -> str:
    volume = world.volumes.get(Ref("storage", recorded.ref.project, name))
    return f"{name} ({size(volume, world)})" if volume else name


def size(volume: Volume, world: World) -> str:
    """The size of a storage, where it is, and how much is used where a host can tell."""
    where = f" on {volume.node}" if volume.node else ""
    return f"{volume.size_gib} GiB{where}{_used(volume, world)}"


def _used(volume: Volume, world: World) -> str:
    """The usage of a storage with a disk of its own; a plain folder shares its disk with others."""
    seen = world.observations.get(volume.node)
    told = ((seen.facts.volumes if seen and seen.facts else None) or {}).get(volume.id)
    return f", {told['usedMiB']} MiB used" if told and BackendWord.LOOP in volume.backend else ""


def mounting(steps: Iterable[Step], recorded: Recorded) -> Mapping[str, str]:
    """What is mounted and unmounted for an allocation that stays, while its sessions go on."""
    facts = {}
    for step in steps:
        places = ", ".join(_places(step, recorded))
        if isinstance(step.item, DetachItem):
            how = (
                "its processes that have it open or mounted are ended, sessions too"
                if step.item.end
                else "not while a process has it open, none is ended for it"
            )
            facts["detach"] = f"{places}; {how}"
        elif isinstance(step.item, AttachItem) and places:
            facts["attach"] = f"{places}; open sessions see it"
    return facts


def _places(step: Step, recorded: Recorded) -> Iterator[str]:
    """The mount places that change."""
    for one in step.item.volumes if isinstance(step.item, (AttachItem, DetachItem)) else ():
        key = attached_key(recorded.id, one.name)
        if recorded.facts.get(key, "") != step.expected.get(key):
            yield f"{one.mount_path} ({one.name})"


def storage_facts(
    difference: Difference, volume: Volume | None, context: Context
) -> Mapping[str, str]:
    """The facts of a storage's own change."""
    resource = difference.resource
    if difference.action in (Action.FORGET, Action.RELEASE):
        return _leaving(difference.action, volume, context.world)
    facts = {}
    if difference.action is Action.CREATE:
        facts["data"] = "none yet: its volume is made by the first attachment"
    elif difference.action is Action.ADOPT and volume is not None:
        facts["returns"] = f"data kept since {volume.since}: {size(volume, context.world)}"
    told = _price(resource, context) if resource else ""
    return {**facts, "price": told} if told else facts


def _leaving(action: Action, volume: Volume | None, world: World) -> Mapping[str, str]:
    if volume is None:
        return {"data": "none: nothing was ever attached"}
    if action is Action.FORGET:
        told = f"all its data: {size(volume, world)}; a storage of that name takes it back"
        return {"keeps": told}
    told = f"all its data: {size(volume, world)}, for good; onDelete: wipe was applied before"
    return {"lost": told}


def _price(resource: Resource, context: Context) -> str:
    class_ = STORAGE_CLASSES.get(context.desired, resource.spec.class_)
    found = price_in_force(class_.spec, context.now) if class_ else None
    if found is None:
        return ""
    gib = resource.spec.size_gib
    total = format(Decimal(found.per_gib_month) * gib, "f")
    return f"{total} {found.currency} a month, {found.per_gib_month} for each of {gib} GiB"


def storage_summary(resource: Resource, now: datetime) -> str:
    spec = resource.spec
    return f"{spec.size_gib} GiB of {spec.class_}, {spec.access_mode}, onDelete {spec.on_delete}"


def class_summary(resource: Resource, now: datetime) -> str:
    spec = resource.spec
    reach = "all its nodes reach the same data" if spec.reaches_all else "data lies on one node"
    limit = "sizes are a limit" if spec.loop else "sizes are told, not enforced"
    return f"{next(iter(spec.backend), 'no backend')}: {reach}, {limit}"
