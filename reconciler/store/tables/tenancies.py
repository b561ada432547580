"""Tenancies: the holders of a slot, one after the other, and how each of them ended."""

from __future__ import annotations

import json
import sqlite3

from reconciler.model.codec import decode
from reconciler.model.host.evidence import Check
from reconciler.model.state.tenancy import Tenancy, Tried
from reconciler.store.file.database import Database

_TENANCIES = (
    "SELECT claim.id, allocation_id, ref, coalesce((SELECT max(login) FROM login"
    " WHERE login.allocation_id = claim.allocation_id), ''), project, node, slot, state, since,"
    " coalesce(freed_at, ''), coalesce(proof, ''), problem, coalesce(actor, ''),"
    " coalesce(override.at, ''), coalesce(override.reason, '')"
    " FROM claim LEFT JOIN override ON override.id = claim.override"
    " WHERE node = ?1 AND (?2 = '' OR slot IS NULL OR slot = ?2) ORDER BY claim.event, claim.id"
)
_PROOFS = (
    "SELECT id, at, source, passed, checks FROM proof"
    " WHERE allocation_id = ? AND node = ? AND slot IS ? ORDER BY event, id"
)


def tenancies(database: Database, node: str, slot: str = "") -> tuple[Tenancy, ...]:
    """The tenancies of one slot, whole nodes included; or of all of a node. Oldest first."""
    with database.snapshot() as connection:
        return tuple(
            Tenancy(
                claim=row[0],
                allocation_id=row[1],
                ref=row[2],
                login=row[3],
                project=row[4],
                node=row[5],
                slot=row[6],
                state=row[7],
                since=row[8],
                freed_at=row[9],
                freed_by=row[10],
                problem=row[11],
                actor=row[12],
                said_at=row[13],
                reason=row[14],
                tried=_tried(connection, row[1], row[5], row[6]),
            )
            for row in connection.execute(_TENANCIES, (node, slot)).fetchall()
        )


def _tried(
    connection: sqlite3.Connection, allocation: str, node: str, slot: str | None
) -> tuple[Tried, ...]:
    rows = connection.execute(_PROOFS, (allocation, node, slot))
    return tuple(
        Tried(
            proof=proof,
            at=at,
            source=source,
            passed=bool(passed),
            checks=tuple(decode(Check, check) for check in json.loads(checks)),
        )
        for proof, at, source, passed, checks in rows
    )
