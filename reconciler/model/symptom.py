"""Symptoms: what can be wrong without any refusal.

A closed list beside the problem codes. Each has its runbook, as each code has.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from reconciler.model.records import dataclass


class Sort(StrEnum):
    """What is wrong with something: `ending` is no fault, and only soon to be."""

    ALARM = "alarm"
    STUCK = "stuck"
    OVERDUE = "overdue"
    STALE = "stale"
    ENDING = "ending"


WANTS_SOMEBODY = frozenset({Sort.ALARM, Sort.STUCK, Sort.OVERDUE})
"""The others go by themselves, or are told in time."""

SYMPTOMS: Mapping[str, str] = MappingProxyType(
    {
        "revocation_pending": "Access was revoked, and a host has not shown that it ended",
        "access_drift": "Login settings on a host differ from what was applied",
        "stray_key": "A key that people put into a home themselves; it opens nothing",
        "host_unfit": "A host shows, or cannot report, something that keeps allocations away",
        "allocation_degraded": "A host shows an allocation that differs from what was applied",
        "bundle_failed": "A host could not build a version of a bundle",
        "run_stalled": "An apply is under way without progress for a long time",
        "run_unended": "An apply ended without a record: it was killed, or its machine went down",
        "run_failed": "The last apply left work undone",
        "step_unknown": "A host was asked for work, and the result is unknown",
        "work_unfinished": "Work for an allocation began and is not finished",
        "storage_left": "A former allocation may still have a storage",
        "node_failing": "A host failed at its work, and is tried last",
        "wipe_unfinished": "Data is being wiped, and no host has shown that it is gone",
        "allocation_in_doubt": "A host's facts about an allocation must be observed again",
        "evidence_stale": "The last answer of a host is older than the Policy allows",
        "never_observed": "A node was never observed",
        "lease_over": "The lease of an allocation is over",
        "lease_ending": "The lease of an allocation ends soon",
        "quarantine_open": "A release can still be undone",
        "quarantine_over": "A release can no longer be undone, and is not finished",
        "suspension_over": "The time of a suspension is over",
        "evacuation_over": "A node should be empty by now",
        "approval_over": "A change was approved, and the approval expired before it was applied",
        "loop_hung": "The loop runs, but its heartbeat is overdue",
        "loop_gone": "The loop died: nothing is repaired automatically",
        "loop_ended": "The loop was ended, and none runs since: nothing is repaired automatically",
        "loop_degraded": "The loop runs with a fault",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing that stands badly. `code` is a symptom or a problem code, and has a runbook.

    `about` is a ref, or a slot as `node/slot`; `command` is the next thing to type, `needs` the
    word under which `status` shows it, empty where it does not.
    """

    sort: Sort
    code: str
    about: str
    text: str
    since: str = ""
    command: str = ""
    needs: str = ""
