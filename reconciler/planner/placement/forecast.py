"""Forecast: when a waiting request may find a place, as far as anything known says.

It is told and never counted on: what a plan frees is given out by a later plan, after the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reconciler.model.host.capacity import Claim, ClaimState, Need
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.plan import Action
from reconciler.model.ref import Ref
from reconciler.model.state.world import World
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.seat import Seat, claims_of
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
    taken = [intent.held() for intent in intents]
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
                seat = Seat(placement=placement, id=str(need.ref), login="")
                taken += [one.held() for one in claims_of(seat, need.ref, need.tenant)]
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
