"""Diagnosis rules: a table that finds what is stuck, overdue or stale.

Every rule names its code, for which there is a runbook, and the next thing to type. Nothing is
decided here: a plan judges for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from reconciler.model.records import dataclass
from reconciler.model.symptom import Diagnosis, Sort
from reconciler.planner.diagnosis import checks, host_checks, storage_checks
from reconciler.planner.diagnosis.context import Chart, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisRule:
    """`needs` is the word under which `status` shows what it finds, empty where it does not."""

    code: str
    sort: Sort
    needs: str
    find: Callable[[Chart], Iterator[Seen]]


def _rule(
    code: str, sort: Sort, needs: str, find: Callable[[Chart], Iterator[Seen]]
) -> DiagnosisRule:
    return DiagnosisRule(code=code, sort=sort, needs=needs, find=find)


MOST = 20
"""Of one sort about one thing so many are told."""

RULES: tuple[DiagnosisRule, ...] = (
    _rule("revocation_pending", Sort.ALARM, "alarm", checks.revocations),
    _rule("stray_key", Sort.ALARM, "access", checks.keys_lying_about),
    _rule("login_refused", Sort.STUCK, "access", checks.shut_out),
    _rule("access_drift", Sort.ALARM, "alarm", host_checks.strange_doors),
    _rule("cleanup_blocked", Sort.STUCK, "proof", checks.blocked_claims),
    _rule("sku_unavailable", Sort.STUCK, "waiting", checks.waiting),
    _rule("host_unreachable", Sort.STUCK, "unknown", checks.silent_hosts),
    _rule("host_unfit", Sort.STUCK, "unfit", host_checks.unfit),
    _rule("allocation_degraded", Sort.STUCK, "degraded", host_checks.degraded),
    _rule("bundle_failed", Sort.STUCK, "failed", host_checks.failed_builds),
    _rule("node_in_doubt", Sort.STUCK, "unknown", checks.doubts),
    _rule("node_failing", Sort.STUCK, "failed", checks.failing),
    _rule("run_stalled", Sort.STUCK, "stalled", checks.stalled),
    _rule("run_unended", Sort.STUCK, "unknown", checks.unended),
    _rule("run_failed", Sort.STUCK, "failed", checks.failed),
    _rule("step_unknown", Sort.STUCK, "unknown", checks.unknown_steps),
    _rule("work_unfinished", Sort.STUCK, "unfinished", checks.unfinished),
    _rule("storage_left", Sort.STUCK, "storage", storage_checks.left_attached),
    _rule("wipe_unfinished", Sort.STUCK, "storage", storage_checks.wipes_unfinished),
    _rule("lease_over", Sort.OVERDUE, "overdue", checks.leases_over),
    _rule("quarantine_over", Sort.OVERDUE, "overdue", checks.quarantines_over),
    _rule("evacuation_over", Sort.OVERDUE, "overdue", checks.evacuations_over),
    _rule("suspension_over", Sort.OVERDUE, "overdue", checks.suspensions_over),
    _rule("allocation_in_doubt", Sort.STALE, "unknown", checks.in_doubt),
    _rule("evidence_stale", Sort.STALE, "stale", checks.stale),
    _rule("never_observed", Sort.STALE, "unknown", checks.never_seen),
    _rule("lease_ending", Sort.ENDING, "expiring", checks.leases_ending),
    _rule("quarantine_open", Sort.ENDING, "undo", checks.quarantines),
)
"""In the order in which somebody should care."""


def diagnose(chart: Chart) -> Iterator[Diagnosis]:
    """All findings, a bounded number of each sort about one thing.

    A host can make up any number, and the findings of others would be lost among them.
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


def _diagnosis(rule: DiagnosisRule, seen: Seen) -> Diagnosis:
    return Diagnosis(
        sort=rule.sort,
        code=seen.code or rule.code,
        about=seen.about,
        text=seen.text,
        since=seen.since,
        command=seen.command,
        needs=rule.needs,
    )
