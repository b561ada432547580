"""Reopening: who may get the files that an ended allocation left in a storage, and why not.

What nobody knows is never taken for what is not: an owner, a uid, or an end.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.model.plan.items.storage import ReopenItem
from reconciler.model.plan.plan import Order, Step, step_id
from reconciler.model.plan.verb import Verb
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref
from reconciler.model.state.reopening import Former, Reopening, ReopenRequest
from reconciler.model.state.volume import Volume
from reconciler.model.state.world import World
from reconciler.planner.storage.successors import former_of, heir_of

TO_OTHERS = (
    "if those people agree, say so: --to-others; it opens all that the allocation left there"
)


def reopening_of(
    world: World, formers: Sequence[Former], volume: Volume, wish: ReopenRequest
) -> Reopening:
    """The reopening that was asked for; `formers` are all that have or had the volume.

    Raises ProblemError `usage`, `not_found` or `reopen_refused`, with the rule that refuses.
    """
    old = former_of(formers, volume.ref, wish.old)
    new, node = heir_of(world, world.attachments_of(volume.id), volume.ref, wish.new)
    one = Reopening(
        storage=volume.ref,
        volume=volume.id,
        node=node,
        old=old,
        new=new,
        to_others=not set(old.people) == set(new.people) == {new.owner},
    )
    for holds, why, hint in _refusals(one):
        if holds and not (hint is TO_OTHERS and wish.to_others):
            raise refuse("reopen_refused", why, hint)
    return one


def reopening_step(one: Reopening, volume: Volume) -> Step:
    """One call to the host, which works for a while and says whether there is more."""
    return Step(
        id=step_id(one.node, Verb.REOPEN, one.storage, one.old.allocation_id),
        verb=Verb.REOPEN,
        node=one.node,
        ref=one.storage,
        order=Order.ENRICH,
        item=ReopenItem(
            id=one.new.allocation_id,
            login=one.new.login,
            uid=one.new.uid or 0,
            volume=one.volume,
            backend=volume.backend,
            fenced=volume.fenced,
            from_=one.old.allocation_id,
            from_uid=one.old.uid or 0,
        ),
    )


def _refusals(one: Reopening) -> Sequence[tuple[bool, str, str]]:
    """The first row that applies says why not."""
    old, new, look = one.old, one.new, f"gpuaas storage show {_short(one.storage)}"
    who = f"{old.ref} ({old.allocation_id})"
    whose = ", ".join(person or "people whom nobody has written down" for person in old.people)
    return (
        (old.allocation_id == new.allocation_id, f"{who} has its own files", look),
        (
            old.lives,
            f"{who} has not ended: its slots or the storage are not known to be free of it",
            "release it first; if it cannot be proved clean: gpuaas doctor",
        ),
        (old.uid is None, f"{who} had no account that this state knows of", look),
        (new.uid is None, f"{new.ref} has no account: its host isolates by folders alone", look),
        (
            one.to_others,
            f"{who} was owned by {whose or 'nobody knows whom'}, {new.ref} is by {new.owner},"
            f" and open to {', '.join(new.people)}",
            TO_OTHERS,
        ),
    )


def _short(ref: Ref) -> str:
    return f"{ref.project}/{ref.name}"
