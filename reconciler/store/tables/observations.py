"""Observations: the last answer of each node."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from reconciler.model.canonical import canonical
from reconciler.model.codec import decode, encode
from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.state.event import EventType
from reconciler.store.file.database import Database
from reconciler.store.registry.contract import Table
from reconciler.store.rows import Rows, read_json
from reconciler.store.transaction import EventDraft, Record


def observe(record: Record, observations: Sequence[Observation]) -> None:
    """Keep the last answer of each node; an event only where it differs from the one before."""
    for one in observations:
        row = record.connection.execute(
            "SELECT digest, problem, unreachable_since, answered_at FROM observation"
            " WHERE node = ?",
            (one.node,),
        ).fetchone()
        before = {"digest": row[0], "problem": row[1]} if row else None
        after = {"digest": one.digest, "problem": one.problem}
        if after != before:
            node = parse_ref(f"node/{one.node}")
            record.write(EventDraft(type=EventType.OBSERVED, ref=node, before=before, after=after))
        since = one.unreachable_since or (row[2] if row else "") or one.at
        record.connection.execute(
            "INSERT INTO observation (node, at, facts, digest, problem, message,"
            " unreachable_since, answered_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (node) DO UPDATE SET at = excluded.at, facts = excluded.facts,"
            " digest = excluded.digest, problem = excluded.problem, message = excluded.message,"
            " unreachable_since = excluded.unreachable_since,"
            " answered_at = excluded.answered_at",
            (
                one.node,
                one.at,
                canonical(encode(one.facts)) if one.facts else None,
                one.digest,
                one.problem,
                one.message,
                since if one.problem else "",
                one.at if one.facts else (row[3] if row else ""),
            ),
        )


def unsee(record: Record, gone: Sequence[Ref]) -> None:
    """Another host may come by the name of a node; what this one said is no evidence of it."""
    record.connection.executemany(
        "DELETE FROM observation WHERE node = ?",
        [(ref.name,) for ref in gone if ref.kind == "node"],
    )


def read_observations(database: Database, connection: sqlite3.Connection) -> Rows[str, Observation]:
    rows = connection.execute(
        "SELECT node, at, facts, digest, problem, message, unreachable_since, answered_at"
        " FROM observation ORDER BY node"
    )

    def read(node: str, row: Any) -> Observation:
        facts = None if row[2] is None else decode(NodeFacts, read_json(row[2], database.path))
        return Observation(
            node=node,
            at=row[1],
            facts=facts,
            digest=row[3],
            problem=row[4],
            message=row[5],
            unreachable_since=row[6],
            answered_at=row[7],
        )

    return Rows({row[0]: row for row in rows}, read)


TABLE = Table(observe=observe, unsee=unsee)
