"""Cleanups: what GPUs use when idle, and overrides in place of a proof, as they are read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from reconciler.model.codec import decode
from reconciler.model.host.evidence import GpuFact, Observation
from reconciler.model.state.world import Override, Recorded
from reconciler.store.registry.contract import Table
from reconciler.store.transaction import Record

_FREE = (
    "SELECT json_extract(slot.value, '$.gpu.uuid') FROM resource"
    " JOIN json_each(normal, '$.spec.slots') slot WHERE kind = 'node' AND name = ?1"
    " AND NOT EXISTS (SELECT 1 FROM claim WHERE node = ?1 AND {live}"
    " (claim.slot IS NULL OR claim.slot = json_extract(slot.value, '$.name')))"
)
FREE, NEVER_TAKEN = _FREE.format(live="state <> 'freed' AND"), _FREE.format(live="")
_LOWER = (
    "INSERT INTO idle_memory (gpu, driver, mib, at) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS"
    " (SELECT 1 FROM idle_memory WHERE gpu = ?1 AND driver = ?2 AND mib <= ?3)"
    " ON CONFLICT (gpu, driver) DO UPDATE SET mib = excluded.mib, at = excluded.at"
)
_FORGET = (
    "DELETE FROM idle_memory WHERE gpu = ?1 AND driver NOT IN"
    " (SELECT driver FROM idle_memory WHERE gpu = ?1 ORDER BY at DESC, driver LIMIT ?2)"
)
DRIVERS = 16
"""So many are remembered of a card, the last ones: there is no end to what a host may tell."""


def observe(record: Record, observations: Sequence[Observation]) -> None:
    """Of cards on which nobody computes and whose slot nobody has; the least that was seen counts.

    A claim keeps what its tenant has left in there from ever counting as idle. Of any card but its
    own a node is not believed: by another's word a release could never be proved, or always.
    """
    for seen in observations:
        _note(record, seen.node, (seen.facts.gpus if seen.facts else None) or (), FREE)


def keep(record: Record, recorded: Sequence[Recorded]) -> None:
    """What nodes have said of cards that are only now known to be theirs, before anybody came."""
    for one in recorded:
        if one.ref.kind == "node":
            row = record.connection.execute(
                "SELECT json_extract(facts, '$.gpus') FROM observation WHERE node = ?",
                (one.ref.name,),
            ).fetchone()
            gpus = json.loads(row[0]) if row and row[0] else ()
            _note(record, one.ref.name, [decode(GpuFact, gpu) for gpu in gpus], NEVER_TAKEN)


def _note(record: Record, node: str, gpus: Iterable[GpuFact], query: str) -> None:
    idle = [gpu for gpu in gpus if _is_idle(gpu)]
    free = {gpu for (gpu,) in record.connection.execute(query, (node,))} if idle else set()
    for gpu in idle:
        if gpu.uuid in free:
            told = (gpu.uuid, gpu.driver, gpu.memory_used_mib, record.at)
            record.connection.execute(_LOWER, told)
            record.connection.execute(_FORGET, (gpu.uuid, DRIVERS))


def _is_idle(gpu: GpuFact) -> bool:
    return gpu.processes == () and gpu.memory_used_mib is not None and gpu.driver is not None


def read_idle(connection: sqlite3.Connection) -> Mapping[tuple[str, str], int]:
    """MiB by the UUID of the card and its driver."""
    rows = connection.execute("SELECT gpu, driver, mib FROM idle_memory")
    return {(gpu, driver): mib for gpu, driver, mib in rows}


def read_overrides(connection: sqlite3.Connection) -> tuple[Override, ...]:
    """All that there ever were, oldest first."""
    rows = connection.execute(
        "SELECT claim.id, ref, node, slot, actor, reason, at FROM override"
        " JOIN claim ON claim.id = override.claim ORDER BY override.event, override.id"
    )
    names = ("claim", "ref", "node", "slot", "actor", "reason", "at")
    return tuple(Override(**dict(zip(names, row, strict=True))) for row in rows)


TABLE = Table(observe=observe, keep=keep, read={"overrides": read_overrides, "idle_mib": read_idle})
