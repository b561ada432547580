"""Reopening: who may be given what an ended allocation has left in a storage, and why not.

What nobody knows is never taken for what is not: an owner, a uid, or an end.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.kinds.allocation_storage import REOPEN
from reconciler.model.lifecycle import Phase
from reconciler.model.plan import Order, Step, step_id
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref
from reconciler.model.reopening import Former, Heir, Reopening, Wish
from reconciler.model.volume import Attachment, Volume
from reconciler.model.world import World

TO_OTHERS = (
    "if those people agree, say so: --to-others; it opens all that the allocation left there"
)


def reopening_of(world: World, formers: Sequence[Former], volume: Volume, wish: Wish) -> Reopening:
    """`formers` are all that have or had the volume.

    Raises ProblemError `usage`, `not_found` or `reopen_refused`, with which rule says no.
    """
    old = _old(formers, volume.ref, wish.old)
    new, node = _heir(world, world.attachments_of(volume.id), volume.ref, wish.new)
    one = Reopening(
        storage=volume.ref,
        volume=volume.id,
        node=node,
        old=old,
        new=new,
        to_others=set(old.people) != {new.owner},
    )
    for holds, why, hint in _refusals(one):
        if holds and not (hint is TO_OTHERS and wish.to_others):
            raise refuse("reopen_refused", why, hint)
    return one


def reopening_step(one: Reopening, volume: Volume) -> Step:
    """One call: its host works for a while, and says whether there is more."""
    return Step(
        id=step_id(one.node, REOPEN, one.storage, one.old.allocation_id),
        verb=REOPEN,
        node=one.node,
        ref=one.storage,
        order=Order.ENRICH,
        item={
            "id": one.new.allocation_id,
            "login": one.new.login,
            "uid": one.new.uid,
            "volume": one.volume,
            "backend": volume.backend,
            "fenced": list(volume.fenced),
            "from": one.old.allocation_id,
            "fromUid": one.old.uid,
        },
    )


def _refusals(one: Reopening) -> Sequence[tuple[bool, str, str]]:
    """The first row that holds is why not."""
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
        (not old.uid, f"{who} had no account that this state knows of", look),
        (not new.uid, f"{new.ref} has no account: its host isolates by folders alone", look),
        (
            one.to_others,
            f"{who} was owned by {whose or 'nobody knows whom'}, {new.ref} is by {new.owner}",
            TO_OTHERS,
        ),
    )


def _old(formers: Sequence[Former], ref: Ref, text: str) -> Former:
    """By its id, or by a name that only one of them had."""
    found = [one for one in formers if text in (one.allocation_id, one.ref, _tail(one.ref))]
    who = ", ".join(f"{_tail(one.ref)} ({one.allocation_id})" for one in formers) or "nobody"
    look = f"gpuaas storage show {_short(ref)}"
    if not found:
        raise refuse("not_found", f"{text} is not known to have had {ref}: {who} had", look)
    if len(found) > 1:
        ended = [one for one in found if not one.lives]
        if len(ended) != 1:
            raise refuse("usage", f"more than one {text} had {ref}: {who}", "name it by its id")
        found = ended
    return found[0]


def _heir(world: World, having: Sequence[Attachment], ref: Ref, text: str) -> tuple[Heir, str]:
    """The allocation that is to own the files, and the node on which it has the storage."""
    names = [(one, (one.allocation_id, str(one.ref), _short(one.ref))) for one in having]
    held = [one for one, known in names if text in known]
    recorded = world.recorded.get(held[0].ref) if held else None
    look = f"gpuaas storage show {_short(ref)}"
    if len({one.allocation_id for one in held}) > 1:
        raise refuse("usage", f"{text} has {ref} more than once", "name it by its id")
    if not held or recorded is None or recorded.id != held[0].allocation_id:
        who = ", ".join(f"{_short(one.ref)} ({one.allocation_id})" for one in having) or "nobody"
        raise refuse("reopen_refused", f"{text} does not have {ref}: {who} does", look)
    lives = recorded.phase is Phase.ACTIVE and not recorded.forgotten
    if not lives or recorded.ref.project != ref.project:
        raise refuse("reopen_refused", f"{recorded.ref} is not active in {ref.project}", look)
    heir = Heir(
        allocation_id=recorded.id,
        ref=recorded.ref,
        login=recorded.login,
        uid=world.counters.uids.get(recorded.id, 0),
        owner=str(recorded.normal["spec"]["owner"]),
    )
    return heir, held[0].node


def _tail(text: str) -> str:
    return text.partition("/")[2]


def _short(ref: Ref) -> str:
    return f"{ref.project}/{ref.name}"
