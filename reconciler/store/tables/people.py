"""People: the present and former owner of each allocation.

Nobody is ever taken off this list: files outlive accounts, and whose they are has to be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.model.plan.work import WaveIntent
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded
from reconciler.store.registry.contract import Table
from reconciler.store.transaction import Record

NOBODY_KNOWS = ""
"""The person where others may have owned an allocation, and nobody has written down who."""


def begin(record: Record, intent: WaveIntent) -> None:
    """Whoever is about to own what these steps are for: files are written before it is recorded."""
    _keep(
        record,
        {
            (change.allocation_id, _owner(change.normal))
            for step in intent.steps
            if step.ref.kind == "allocation"
            and (change := record.changes.get(step.ref)) is not None
            and change.normal is not None
            and step.item.allocation_id == change.allocation_id
        },
    )


def keep(record: Record, recorded: Sequence[Recorded]) -> None:
    """Whose what is recorded now is."""
    _keep(
        record,
        {
            (one.id, _owner(one.normal))
            for one in recorded
            if one.ref.kind == "allocation" and one.id
        },
    )


def rename(record: Record, former: Ref, ref: Ref) -> None:
    """Whoever bears the former name later may be somebody else."""
    forget(record, [former])


def doubt(record: Record, recorded: Iterable[Recorded]) -> None:
    """Others may have owned these before the state was lost."""
    of = (one.id for one in recorded if one.ref.kind == "allocation" and one.id)
    _keep(record, {(id, NOBODY_KNOWS) for id in of})


def forget(record: Record, gone: Sequence[Ref]) -> None:
    """Of Users who have gone: whoever bears the name later may be somebody else."""
    record.connection.executemany(
        "INSERT INTO allocation_person (allocation_id, person, since)"
        " SELECT DISTINCT allocation_id, ?1, ?2 FROM allocation_person WHERE person = ?3"
        " AND allocation_id NOT IN (SELECT allocation_id FROM allocation_person WHERE person = ?1)",
        [(NOBODY_KNOWS, record.at, ref.name) for ref in gone if ref.kind == "user"],
    )


def _owner(normal: Mapping[str, Any]) -> str:
    return str(normal.get("spec", {}).get("owner", NOBODY_KNOWS))


def _keep(record: Record, owners: Iterable[tuple[str, str]]) -> None:
    record.connection.executemany(
        "INSERT INTO allocation_person (allocation_id, person, since) SELECT ?1, ?2, ?3"
        " WHERE NOT EXISTS (SELECT 1 FROM allocation_person"
        " WHERE allocation_id = ?1 AND person = ?2)",
        [(*owner, record.at) for owner in sorted(owners)],
    )


TABLE = Table(begin=begin, keep=keep, forget=forget, rename=rename)
