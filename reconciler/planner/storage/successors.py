"""Successors: which ended allocation left files in a storage, and which is to own them.

By id, or by a name that only one of them had.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.grant import GRANTS
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref
from reconciler.model.state.reopening import Former, Heir
from reconciler.model.state.volume import Attachment
from reconciler.model.state.world import Recorded, World


def former_of(formers: Sequence[Former], ref: Ref, text: str) -> Former:
    """The former allocation, by its id, or by a name that only one of them had."""
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


def heir_of(world: World, having: Sequence[Attachment], ref: Ref, text: str) -> tuple[Heir, str]:
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
        uid=world.counters.uids.get(recorded.id),
        owner=ALLOCATIONS.applied(recorded).owner,
        people=_people(world, recorded),
    )
    return heir, held[0].node


def _people(world: World, recorded: Recorded) -> tuple[str, ...]:
    """Everybody who may log in, now or by a grant that is not in force yet or any more."""
    spec, ref = ALLOCATIONS.applied(recorded), recorded.ref
    grants = (one for one in GRANTS.recorded(world) if one.ref.project == ref.project)
    guests = (one.user for one in map(GRANTS.applied, grants) if one.allocation == ref.name)
    return tuple(sorted({spec.owner, *spec.access, *guests}))


def _tail(text: str) -> str:
    return text.partition("/")[2]


def _short(ref: Ref) -> str:
    return f"{ref.project}/{ref.name}"
