"""Writes a rebuilt state beside its place, and allocations that hosts have reported."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import count, groupby
from pathlib import Path

from reconciler.model.problem import refuse
from reconciler.model.state.event import EventType
from reconciler.model.state.rebuilt import Rebuilt
from reconciler.stops import around
from reconciler.store.backup.copy import sync
from reconciler.store.file.database import Database
from reconciler.store.file.errors import wording
from reconciler.store.tables import (
    accounts,
    attachments,
    claims,
    observations,
    people,
    resources,
    taints,
    usage,
    volumes,
)
from reconciler.store.transaction import EventDraft, Record

BESIDE = "rebuilding"
LOGS = ("-wal", "-shm")


@contextmanager
def beside(path: Path, *, state_id: str, now: datetime) -> Iterator[Database]:
    """A new state to be filled; it takes its place when it is left, whole or not at all.

    Used under the lock. Raises ProblemError `state_exists` where there is a state.
    """
    folder = path.parent / BESIDE
    if path.exists():
        raise refuse("state_exists", f"{path} is there", "nothing is rebuilt over a state")
    with wording(path):
        if folder.exists():
            shutil.rmtree(folder)
    try:
        with Database.create(folder / path.name, state_id=state_id, now=now) as database:
            yield database
        # Closed by its only user, it is one file.
        with wording(path), around("rebuilt"):
            _put_logs_aside(path)
            (folder / path.name).rename(path)
            sync(path.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write(record: Record, rebuilt: Rebuilt) -> None:
    """Claims first, as always; nothing is released by this, and nobody's claim is changed."""
    record.write(
        EventDraft(
            type=EventType.STATE_REBUILT,
            after={
                "nodes": list(rebuilt.nodes),
                "allocations": len(rebuilt.why),
                "volumes": len(rebuilt.volumes),
            },
            reason=rebuilt.reason,
        )
    )
    taints.raise_floors(record.connection, rebuilt.least)
    for _, made in groupby(rebuilt.claims, key=lambda claim: claim.allocation_id):
        claims.make_claims(record, tuple(made), lambda claim: rebuilt.why[claim.allocation_id])
    observations.observe(record, rebuilt.observations)
    resources.keep(record, rebuilt.recorded)
    people.keep(record, rebuilt.recorded)
    volumes.keep(record, rebuilt.recorded)
    people.doubt(record, rebuilt.recorded)
    changes = {change.ref: change for change in rebuilt.changes}
    usage.begin_use(replace(record, changes=changes), rebuilt.recorded)
    accounts.keep_gids(record, rebuilt.gids)
    volumes.rebuild(record, rebuilt.volumes)
    attachments.rebuild(record, rebuilt)
    taints.begin(record, rebuilt.doubts.kept)
    taints.end(record, rebuilt.doubts.ended)


def _put_logs_aside(path: Path) -> None:
    """The log of the lost state would be read as that of the new one."""
    names = (path.with_name(f"{path.name}.lost-{number}") for number in count(1))
    kept = next(n for n in names if not any(n.with_name(n.name + log).exists() for log in LOGS))
    for log in LOGS:
        left = path.with_name(path.name + log)
        if left.exists():
            left.rename(kept.with_name(kept.name + log))
