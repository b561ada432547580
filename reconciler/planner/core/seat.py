"""Seats: the slots that an allocation gets on a node, or the reason why it gets none."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.model.host.capacity import Claim, Need, Placement, Unavailable
from reconciler.model.plan.plan import ClaimIntent
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A place on a node. `claims` is empty where they were made before."""

    placement: Placement
    id: str
    login: str
    uid: int = 0
    gid: int = 0
    claims: tuple[ClaimIntent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseated:
    """Why there is no place; `unavailable` is set where it is a matter of capacity alone."""

    problem: Problem
    unavailable: Unavailable | None = None
    need: Need | None = None


WITH_CAPACITY = frozenset({"allocation"})
"""Kinds that ask for places; `needs` of every other kind answers None."""


def placement_of(claims: Sequence[Claim], slots: Sequence[str]) -> Placement:
    """The place that claims hold; `slots` are all of the node's, in the order of its spec."""
    held = {claim.slot for claim in claims}
    named = sorted(slot for slot in held if slot is not None)
    return Placement(
        node=claims[0].node,
        slots=tuple(slots) if None in held else tuple(named),
        shape=claims[0].shape,
    )
