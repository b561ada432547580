"""Overrides: slots that were freed without a proof stay marked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from reconciler.model.state.world import Override


def vouched_for(overrides: Sequence[Override], node: str, slots: Collection[str]) -> str:
    """The last override of one of these slots, or of the whole node; empty if there was none.

    A later proof covers only what its own tenant left, so it removes no mark.
    """
    words = [
        f"{one.slot or 'the whole node'} by {one.actor} on {one.at[:10]}: {one.reason}"
        for one in overrides
        if one.node == node and (one.slot is None or one.slot in slots)
    ]
    return words[-1] if words else ""
