"""Overrides: claims that end by somebody's word in the place of a proof."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from reconciler.model.host.capacity import Claim, ClaimState
from reconciler.model.problem import refuse
from reconciler.model.state.event import EventType
from reconciler.store.registry import lifecycle
from reconciler.store.transaction import EventDraft, Record


def free_unproved(record: Record, claims: Sequence[Claim], reason: str) -> None:
    """Free these claims by the decision of whoever acts.

    Raises ProblemError `state_guard` unless all of them are blocked. What waited for nothing else
    goes off the books with them.
    """
    for claim in claims:
        if claim.state is not ClaimState.CLEANUP_BLOCKED:
            raise refuse("state_guard", f"the claim of {claim.ref} is {claim.state}, not blocked")
    for claim in claims:
        place = {"claim": claim.id, "node": claim.node, "slot": claim.slot}
        said, _ = record.write(
            EventDraft(
                type=EventType.OVERRIDDEN,
                ref=claim.ref,
                before={"problem": claim.problem},
                after=place,
                reason=reason,
            ),
            EventDraft(
                type=EventType.CLAIM_FREED, ref=claim.ref, after={**place, "override": claim.id}
            ),
        )
        record.connection.execute(
            "INSERT INTO override (id, claim, actor, reason, at, event) VALUES (?, ?, ?, ?, ?, ?)",
            (claim.id, claim.id, record.actor, reason, record.at, said),
        )
        record.connection.execute(
            "UPDATE claim SET state = 'freed', freed_at = ?, override = ?, problem = ''"
            " WHERE id = ?",
            (record.at, claim.id, claim.id),
        )
    ended = [claim for claim in claims if _is_over(record.connection, claim)]
    lifecycle.forget(record, sorted({claim.ref for claim in ended}))


def _is_over(connection: sqlite3.Connection, claim: Claim) -> bool:
    """Whether this was all that was left of it: a release, and not what a replace has left."""
    query = (
        "SELECT 1 FROM resource WHERE ref = ?1 AND id = ?2 AND phase = 'releasing' AND NOT EXISTS"
        " (SELECT 1 FROM claim WHERE ref = ?1 AND state <> 'freed')"
    )
    return bool(connection.execute(query, (str(claim.ref), claim.allocation_id)).fetchone())
