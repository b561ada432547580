"""Forecast: when a waiting request may find a place, as far as anything known says.

It is told and never counted on: what a plan frees is given out by a later plan, after the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.model.host.capacity import Claim, ClaimState, Need, Placement, Shape
from reconciler.model.plan.plan import Action, ClaimIntent
from reconciler.model.ref import Ref
from reconciler.model.state.world import World
from reconciler.planner.core.difference import Difference
from reconciler.planner.placement.inventory import Offer
from reconciler.planner.placement.scheduler import Placer

LATER = "once what leaves is proved gone, in a plan after that"
UNKNOWN = "unknown: nothing that is known to end would make room"

FARTHEST = 16
"""So many ends are looked at, the next ones; what lies behind them is nobody's plan."""


def outlooks(
    needs: Sequence[Need],
    offers: Sequence[Offer],
    claims: Sequence[Claim],
    intents: Iterable[ClaimIntent],
    ends: Mapping[Ref, str],
) -> Mapping[Ref, str]:
    """When each request may get a place; each takes one in turn, so that none is promised twice.

    `ends` says when each allocation comes to its end; empty if by this plan.
    """
    found = dict.fromkeys((need.ref for need in needs), UNKNOWN)
    held = [claim for claim in claims if claim.state is ClaimState.HELD]
    if not needs or (len(held) == len(claims) and not ends):
        return found
    taken = [claim_of(intent) for intent in intents]
    left, told = list(needs), _told(ends)
    for moment in ("", *sorted({end for end in ends.values() if end})[:FARTHEST]):
        if not left:
            break
        staying = (claim for claim in held if ends.get(claim.ref, FOREVER) > moment)
        placer = Placer(offers, (*staying, *taken))
        for need in left:
            placement = placer.place(need)
            if placement is not None:
                found[need.ref] = told[moment]
                taken += _claims(placement, need)
        left = [need for need in left if found[need.ref] == UNKNOWN]
    return found


FOREVER = "~"
"""Behind every moment."""


def _told(ends: Mapping[Ref, str]) -> Mapping[str, str]:
    """What is said of room at each moment: by the first of those that end then."""
    first: dict[str, Ref] = {}
    for ref, end in ends.items():
        first[end] = min(ref, first.get(end, ref))
    return {end: f"when {ref} ends ({end})" for end, ref in first.items()} | {"": LATER}


def _claims(placement: Placement, need: Need) -> Iterator[Claim]:
    slots = placement.slots if need.shape is Shape.GPU_SLICE else (None,)
    for slot in slots:
        yield Claim(
            id=f"{need.ref}-{slot}",
            allocation_id=str(need.ref),
            ref=need.ref,
            node=placement.node,
            slot=slot,
            shape=need.shape,
            state=ClaimState.HELD,
            since="",
            tenant=need.tenant,
            project=need.project,
        )


def ends_in(
    differences: Iterable[Difference], refused: Mapping[Ref, object], world: World
) -> Mapping[Ref, str]:
    """Allocations that end, and when; those that this plan releases for good come first."""
    known = {
        ref: one.undo_until or one.expires_at
        for ref, one in world.recorded.items()
        if one.undo_until or one.expires_at
    }
    for one in differences:
        if one.action is Action.RELEASE and one.ref not in refused:
            known[one.ref] = ""
    return known


def claim_of(intent: ClaimIntent) -> Claim:
    """The claim as it will be once the intent is written."""
    return Claim(
        id=intent.id,
        allocation_id=intent.allocation_id,
        ref=intent.ref,
        node=intent.node,
        slot=intent.slot,
        shape=intent.shape,
        state=ClaimState.HELD,
        since="",
        tenant=intent.tenant,
        project=intent.project,
    )
