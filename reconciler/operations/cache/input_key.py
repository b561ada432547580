"""The input of a fleet-wide result as one key: equal keys mean equal input.

This module loads none of the rooms that make anything: that is its use.
"""

from __future__ import annotations

from reconciler import shipped
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.operations.fleet import Fleet
from reconciler.specs.git.tree_keys import TreeKey
from reconciler.store.file.database import Database
from reconciler.store.serial import read_stamp


def fleet_key(fleet: Fleet, database: Database, tree: TreeKey) -> str:
    """Over specs, state, program, settings and who asks, by whom what no commit has is judged.

    Empty if nobody can tell.
    """
    parts = [read_stamp(database), shipped.stamp(), encode(fleet.settings), encode(fleet.actor)]
    with fleet.cache() as cache:
        specs = tree(cache)
    return digest([specs, *parts]) if specs else ""
