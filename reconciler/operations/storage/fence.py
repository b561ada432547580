"""`storage fence`: a storage is force-detached where no host can confirm the detach.

It ends an attachment that nothing else will end: its host has burnt, or a detach never comes to its
end. It is for good, and it is the one way in which two may write to what only one may write to: so
it takes an operator, is refused where a host shows the opposite, and is kept with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from reconciler.model.host.facts.attached_fact import attached_key
from reconciler.model.problem import Problem, refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.volume import Attachment
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.journal import writing
from reconciler.operations.person import insist_on_reason, operator
from reconciler.operations.published.publish import publish
from reconciler.operations.references import volume_of
from reconciler.operations.specs import read_desired
from reconciler.operations.storage.storage import StorageHolder, holders, storage_of
from reconciler.store.snapshot import read_world
from reconciler.store.tables import attachments


@dataclass(frozen=True, slots=True, kw_only=True)
class Severed:
    """Who is to be cut off from which storage; `silent` says what is known of their host."""

    storage: str
    volume: str
    holder: StorageHolder
    silent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """`left` are those who have it still; `problems` are those of what is published."""

    severed: Severed
    actor: str
    reason: str
    left: tuple[StorageHolder, ...] = ()
    problems: tuple[Problem, ...] = ()


def fence(
    fleet: Fleet,
    storage_text: str,
    allocation_text: str,
    reason: str,
    ask: Callable[[Severed], bool],
) -> Fenced:
    """Cut an allocation off from a storage, by the word of the operator who acts.

    `ask` is shown who that is. Raises ProblemError `usage` without a reason, `person_unknown` or
    `operator_only`, `not_found`, `fence_refused`, `declined`, `plan_stale`.
    """
    insist_on_reason(reason)
    ref = storage_of(storage_text)
    by = operator(fleet, read_desired(fleet), "cuts an allocation off from a storage")
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
    volume_of(world, ref)
    held = _held(world, ref, allocation_text)
    severed = _severed(world, ref, held)
    if not ask(severed):
        raise refuse("declined", "nobody was cut off", "run it again and answer yes")
    speaking = replace(fleet, actor=replace(fleet.actor, user=by))
    with writing(speaking, "storage fence") as journal:
        now = journal.world()
        if _held(now, ref, allocation_text) != held or _severed(now, ref, held) != severed:
            message = f"who has {ref}, or what his host shows, is no longer what was shown"
            raise refuse("plan_stale", message, f"look again: gpuaas storage show {_short(ref)}")
        journal.enter("fence", attachments.fence, held, reason)
        after = journal.world()
        problems = publish(fleet, after)
    left = after.attachments_of(severed.volume)
    return Fenced(
        severed=severed,
        actor=by,
        reason=reason,
        left=holders(left, after),
        problems=problems,
    )


def _held(world: World, ref: Ref, text: str) -> tuple[Attachment, ...]:
    """All places at which one allocation has the storage, by its id, its name or its ref."""
    volume = world.volumes.get(ref)
    having = world.attachments_of(volume.id) if volume else ()
    found = [one for one in having if text in _names(one)]
    who = ", ".join(_told(having)) or "nobody"
    look = f"gpuaas storage show {_short(ref)}"
    if not found:
        raise refuse("not_found", f"{text} does not have {ref}: {who} does", look)
    if len({one.allocation_id for one in found}) > 1:
        raise refuse("usage", f"{text} has it more than once: {who}", "name it by its id")
    return tuple(found)


def _names(one: Attachment) -> frozenset[str]:
    return frozenset((one.allocation_id, str(one.ref), _short(one.ref), one.ref.name))


def _severed(world: World, ref: Ref, held: tuple[Attachment, ...]) -> Severed:
    """Raises ProblemError `fence_refused` where the host shows that it is attached there."""
    one = held[0]
    seen = world.observations.get(one.node)
    shown = (seen.facts.platform if seen and seen.facts else None) or {}
    places = {attached_key(each.allocation_id, each.storage.name) for each in held}
    if seen is not None and places & shown.keys():
        raise refuse(
            "fence_refused",
            f"{one.node} has shown at {seen.at} that {one.ref} has {ref} attached",
            "take it out of its spec.storage and apply that; if the host is gone since then, look"
            " first: gpuaas plan --refresh",
        )
    silent = f"{one.node} was never looked at"
    if seen is not None:
        silent = f"{one.node} did not show it attached at {seen.at}"
        if seen.facts is None:
            silent = f"{one.node} does not answer since {seen.unreachable_since or seen.at}"
    (holder, *_) = holders(held, world)
    return Severed(storage=str(ref), volume=one.volume, holder=holder, silent=silent)


def _told(having: Iterable[Attachment]) -> list[str]:
    return [f"{one.ref} ({one.allocation_id}, {one.mode}, on {one.node})" for one in having]


def _short(ref: Ref) -> str:
    return f"{ref.project}/{ref.name}"
