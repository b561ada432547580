"""What each table gives to the World: the name of its field, and how it is read.

Resources and observations, whose rows are decoded when somebody looks, are read beside it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from reconciler.store.serial import serial, state_id
from reconciler.store.tables.acceptances import read_acceptances
from reconciler.store.tables.accounts import read_counters
from reconciler.store.tables.attachments import read_attachments
from reconciler.store.tables.claims import read_claims
from reconciler.store.tables.cleanups import read_idle, read_overrides
from reconciler.store.tables.consents import read_unused
from reconciler.store.tables.expiry import read_lapsed
from reconciler.store.tables.failures import read_failures
from reconciler.store.tables.installs import read_installs
from reconciler.store.tables.queue import read_waiting
from reconciler.store.tables.removals import read_removals
from reconciler.store.tables.revocations import read_revocations
from reconciler.store.tables.runs import read_open_steps, read_program
from reconciler.store.tables.suspensions import read_suspensions
from reconciler.store.tables.taints import read_doubts
from reconciler.store.tables.volumes import read_volumes, read_wiped

READ: Mapping[str, Callable[[sqlite3.Connection], Any]] = {
    "state_id": state_id,
    "serial": serial,
    "claims": read_claims,
    "counters": read_counters,
    "waiting": read_waiting,
    "lapsed": read_lapsed,
    "open_steps": read_open_steps,
    "suspensions": read_suspensions,
    "accepted_drift": read_acceptances,
    "revocations": read_revocations,
    "doubts": read_doubts,
    "overrides": read_overrides,
    "idle_mib": read_idle,
    "volumes": read_volumes,
    "attachments": read_attachments,
    "wiped": read_wiped,
    "installs": read_installs,
    "failures": read_failures,
    "written_by": read_program,
    "consents": read_unused,
    "removals": read_removals,
}
