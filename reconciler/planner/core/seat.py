"""Seats: the slots that an allocation gets on a node, or the reason why it gets none."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.model.host.capacity import Claim, Need, Placement, Shape, Unavailable
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A place on a node. `claims` is empty where they were made before."""

    placement: Placement
    id: str
    login: str
    uid: int | None = None
    gid: int | None = None
    claims: tuple[ClaimIntent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseated:
    """Why there is no place; `unavailable` is set where it is a matter of capacity alone."""

    problem: Problem
    unavailable: Unavailable | None = None
    need: Need | None = None


WITH_CAPACITY = frozenset({"allocation"})
"""Kinds that ask for places; `needs` of every other kind answers None."""


def claims_of(seat: Seat, ref: Ref, tenant: str) -> tuple[ClaimIntent, ...]:
    """How an allocation claims its place: the node as a whole, or each of its slots."""
    place = seat.placement
    slots: Sequence[str | None] = (None,) if place.shape is Shape.BAREMETAL else place.slots
    return tuple(
        ClaimIntent(
            id=f"{seat.id}-{slot}" if slot else seat.id,
            allocation_id=seat.id,
            ref=ref,
            node=place.node,
            slot=slot,
            shape=place.shape,
            tenant=tenant,
            project=ref.project,
            login=seat.login,
            uid=seat.uid,
            gid=seat.gid,
        )
        for slot in slots
    )


def placement_of(claims: Sequence[Claim], slots: Sequence[str]) -> Placement:
    """The place that claims hold; `slots` are all of the node's, in the order of its spec."""
    held = {claim.slot for claim in claims}
    named = sorted(slot for slot in held if slot is not None)
    return Placement(
        node=claims[0].node,
        slots=tuple(slots) if None in held else tuple(named),
        shape=claims[0].shape,
    )
