"""Wipes: volumes whose data a host is asked to remove, and those that are gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from reconciler.model.plan.items.storage import WipeItem
from reconciler.model.plan.work import WaveIntent
from reconciler.model.state.volume import Volume, VolumeState
from reconciler.store.registry.contract import Table
from reconciler.store.tables import volumes
from reconciler.store.transaction import Record


def read_wiped(connection: sqlite3.Connection) -> Mapping[str, Volume]:
    """Volumes that are gone, by their ids."""
    return {one.id: one for one in volumes.stored(connection, "state = 'gone'")}


def hold(record: Record, intent: WaveIntent) -> None:
    """From now on nobody knows how much of them is left. Each try is an event, as it destroys."""
    for step in intent.steps:
        if isinstance(step.item, WipeItem):
            volumes.become(record, [step.item.volume], VolumeState.WIPING)


TABLE = Table(hold=hold, read={"wiped": read_wiped})
