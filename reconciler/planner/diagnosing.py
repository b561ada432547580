"""Diagnosing: what is stuck, overdue or stale, by a table of rules over what the store knows.

Every rule names its code, for which there is a runbook, and the next thing to type. Nothing is
decided here: a plan judges for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from reconciler.model.records import dataclass
from reconciler.model.symptom import Diagnosis, Sort
from reconciler.planner import host_signs, signs, storage_signs
from reconciler.planner.chart import Chart, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`needs` is the word under which `status` shows what it finds, empty where it does not."""

    code: str
    sort: Sort
    needs: str
    find: Callable[[Chart], Iterator[Seen]]


def _rule(code: str, sort: Sort, needs: str, find: Callable[[Chart], Iterator[Seen]]) -> Rule:
    return Rule(code=code, sort=sort, needs=needs, find=find)


MOST = 20
"""Of one sort about one thing so many are told."""

RULES: tuple[Rule, ...] = (
    _rule("revocation_pending", Sort.ALARM, "alarm", signs.revocations),
    _rule("stray_key", Sort.ALARM, "access", signs.keys_lying_about),
    _rule("login_refused", Sort.STUCK, "access", signs.shut_out),
    _rule("access_drift", Sort.ALARM, "alarm", host_signs.strange_doors),
    _rule("cleanup_blocked", Sort.STUCK, "proof", signs.blocked_claims),
    _rule("sku_unavailable", Sort.STUCK, "waiting", signs.waiting),
    _rule("host_unreachable", Sort.STUCK, "unknown", signs.silent_hosts),
    _rule("host_unfit", Sort.STUCK, "unfit", host_signs.unfit),
    _rule("allocation_degraded", Sort.STUCK, "degraded", host_signs.degraded),
    _rule("bundle_failed", Sort.STUCK, "failed", host_signs.failed_builds),
    _rule("node_in_doubt", Sort.STUCK, "unknown", signs.doubts),
    _rule("node_failing", Sort.STUCK, "failed", signs.failing),
    _rule("run_stalled", Sort.STUCK, "stalled", signs.stalled),
    _rule("run_unended", Sort.STUCK, "unknown", signs.unended),
    _rule("run_failed", Sort.STUCK, "failed", signs.failed),
    _rule("step_unknown", Sort.STUCK, "unknown", signs.unknown_steps),
    _rule("work_unfinished", Sort.STUCK, "unfinished", signs.unfinished),
    _rule("storage_left", Sort.STUCK, "storage", storage_signs.left_attached),
    _rule("wipe_unfinished", Sort.STUCK, "storage", storage_signs.wipes_unfinished),
    _rule("lease_over", Sort.OVERDUE, "overdue", signs.leases_over),
    _rule("quarantine_over", Sort.OVERDUE, "overdue", signs.quarantines_over),
    _rule("evacuation_over", Sort.OVERDUE, "overdue", signs.evacuations_over),
    _rule("suspension_over", Sort.OVERDUE, "overdue", signs.suspensions_over),
    _rule("allocation_in_doubt", Sort.STALE, "unknown", signs.in_doubt),
    _rule("evidence_stale", Sort.STALE, "stale", signs.stale),
    _rule("never_observed", Sort.STALE, "unknown", signs.never_seen),
    _rule("lease_ending", Sort.ENDING, "expiring", signs.leases_ending),
    _rule("quarantine_open", Sort.ENDING, "undo", signs.quarantines),
)
"""In the order in which somebody should care."""


def diagnose(chart: Chart) -> Iterator[Diagnosis]:
    """Of very much of one sort about one thing the first are told: a host can make up any number,

    and what others are in would not be found among it.
    """
    for rule in RULES:
        told: Counter[str] = Counter()
        for seen in rule.find(chart):
            told[seen.about] += 1
            if told[seen.about] <= MOST:
                yield _diagnosis(rule, seen)
        for about, number in told.items():
            if number > MOST:
                text = f"{about}: {number - MOST} more of this"
                yield _diagnosis(rule, Seen(about=about, text=text, command=f"gpuaas show {about}"))


def _diagnosis(rule: Rule, seen: Seen) -> Diagnosis:
    return Diagnosis(
        sort=rule.sort,
        code=seen.code or rule.code,
        about=seen.about,
        text=seen.text,
        since=seen.since,
        command=seen.command,
        needs=rule.needs,
    )
