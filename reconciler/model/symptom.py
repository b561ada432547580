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
        "revocation_pending": "Access was taken away, and a host has not shown that it ended",
        "access_drift": "What says who may log in is not as it was made on a host",
        "stray_key": "A key that people put into a home themselves; it opens nothing",
        "host_unfit": "A host shows, or cannot say, something without which nobody is placed there",
        "allocation_degraded": "A host shows an allocation otherwise than it was made",
        "bundle_failed": "A version of a bundle that a host could not build",
        "run_stalled": "An apply is under way and has not moved for long",
        "run_unended": "An apply ended without a word: it was killed, or its machine went down",
        "run_failed": "The last apply left something undone",
        "step_unknown": "A host was asked for something, and nobody knows whether it did it",
        "work_unfinished": "Something was begun for an allocation and not finished",
        "storage_left": "A storage that somebody who is gone may still have",
        "node_failing": "A host failed at what it was asked for, and is asked last",
        "wipe_unfinished": "Data is being wiped, and nobody has seen that it is gone",
        "allocation_in_doubt": "What a host shows of an allocation is to be looked at anew",
        "evidence_stale": "What a host last said is older than it counts for",
        "never_observed": "A node that nobody has looked at yet",
        "lease_over": "An allocation whose time is up",
        "lease_ending": "An allocation whose time is soon up",
        "quarantine_open": "A release that can still be taken back",
        "quarantine_over": "A release that can no longer be taken back, and is not finished",
        "suspension_over": "A suspension whose time is up",
        "evacuation_over": "A node that was to be empty by now",
        "approval_over": "A change was approved, and the approval ran out before it was done",
        "loop_hung": "The loop lives and has said nothing for long",
        "loop_gone": "The loop died without a word: nothing is mended by itself",
        "loop_ended": "The loop was ended, and none runs since: nothing is mended by itself",
        "loop_degraded": "The loop runs and does less than it should",
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
