"""The registry of tables: the only place where the store names them all, in their order.

The order is the order: at each moment events are told in it. A new table adds a row. Tables without
a row are written by another one, or on somebody's word alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from reconciler.model.host.evidence import Observation
from reconciler.model.plan.work import WaveOutcome
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded
from reconciler.store.registry.contract import Table
from reconciler.store.serial import serial, state_id
from reconciler.store.tables import (
    acceptances,
    accounts,
    attachments,
    claims,
    cleanups,
    consents,
    expiry,
    failures,
    installs,
    observations,
    people,
    queue,
    removals,
    resources,
    restarts,
    revocations,
    runs,
    suspensions,
    taints,
    usage,
    volumes,
    wipes,
)
from reconciler.store.transaction import Record

TABLES: tuple[Table, ...] = (
    observations.TABLE,
    failures.TABLE,
    resources.TABLE,
    people.TABLE,
    runs.TABLE,
    revocations.TABLE,
    suspensions.TABLE,
    acceptances.TABLE,
    claims.TABLE,
    volumes.TABLE,
    attachments.TABLE,
    wipes.TABLE,
    accounts.TABLE,
    cleanups.TABLE,
    taints.TABLE,
    installs.TABLE,
    usage.TABLE,
    queue.TABLE,
    expiry.TABLE,
    restarts.TABLE,
    removals.TABLE,
    consents.TABLE,
)

HOLD = tuple(table.hold for table in TABLES if table.hold)
BEGIN = tuple(table.begin for table in TABLES if table.begin)
SETTLE = tuple(table.settle for table in TABLES if table.settle)
OBSERVE = tuple(table.observe for table in TABLES if table.observe)
CONCLUDE = tuple(table.conclude for table in TABLES if table.conclude)
KEEP = tuple(table.keep for table in TABLES if table.keep)
DONE = tuple(table.done for table in TABLES if table.done)
END = tuple(table.end for table in TABLES if table.end)
NOTE = tuple(table.note for table in TABLES if table.note)
STAYS = tuple(table.stays for table in TABLES if table.stays)
LEAVE = tuple(table.leave for table in TABLES if table.leave)
UNSEE = tuple(table.unsee for table in TABLES if table.unsee)
FORGET = tuple(table.forget for table in TABLES if table.forget)
RENAME = tuple(table.rename for table in TABLES if table.rename)
READ: Mapping[str, Callable[[sqlite3.Connection], Any]] = MappingProxyType(
    {
        "state_id": state_id,
        "serial": serial,
        **{name: read for table in TABLES for name, read in table.read.items()},
    }
)
"""Resources and observations, whose rows are decoded when somebody looks, are read beside it."""


def settle(record: Record, outcome: WaveOutcome) -> None:
    """What hosts have shown of a wave."""
    for table in SETTLE:
        table(record, outcome)
    observe(record, outcome.observations)
    for table in CONCLUDE:
        table(record, outcome)


def observe(record: Record, told: Sequence[Observation]) -> None:
    for table in OBSERVE:
        table(record, told)


def keep(record: Record, recorded: Sequence[Recorded]) -> None:
    for table in KEEP:
        table(record, recorded)


def unsee(record: Record, nodes: Sequence[Ref]) -> None:
    """What these said counts no more."""
    for table in UNSEE:
        table(record, nodes)
