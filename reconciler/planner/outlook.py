"""Outlook: when a request that finds no place may find one, as far as anything known says so.

It is told and never counted on: what a plan frees is given out by a later plan, after the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reconciler.model.capacity import Claim, ClaimState, Need
from reconciler.model.plan import Action, ClaimIntent
from reconciler.model.ref import Ref
from reconciler.planner.capacity import Offer
from reconciler.planner.diff import Difference
from reconciler.planner.placement import Placer

LATER = "once what leaves is proved gone, in a plan after that"
UNKNOWN = "unknown: no allocation ends by itself"


def outlooks(
    needs: Sequence[Need],
    offers: Iterable[Offer],
    claims: Sequence[Claim],
    intents: Iterable[ClaimIntent],
    leaving: frozenset[Ref],
) -> Mapping[Ref, str]:
    """One after the other takes a place in what will be free, so that none is promised twice."""
    if not needs:
        return {}
    staying = [c for c in claims if c.state is ClaimState.HELD and c.ref not in leaving]
    if len(staying) == len(claims):
        return {need.ref: UNKNOWN for need in needs}
    placer = Placer(offers, (*staying, *(claim_of(intent) for intent in intents)))
    return {need.ref: LATER if placer.place(need) else UNKNOWN for need in needs}


def leaving_in(differences: Iterable[Difference], refused: Mapping[Ref, object]) -> frozenset[Ref]:
    """Allocations that this plan releases."""
    return frozenset(
        one.ref for one in differences if one.action is Action.RELEASE and one.ref not in refused
    )


def claim_of(intent: ClaimIntent) -> Claim:
    """What the intent is once it is written down."""
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
