"""Evidence as text: a host's last answer, its checks, its facts beside those wanted, and proofs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.cli.text import (
    BLANK,
    Span,
    Style,
    TextLine,
    column,
    conceal,
    dim,
    line,
    pad,
    strong,
)
from reconciler.cli.views import events as events_view
from reconciler.cli.views import shown as shown_view
from reconciler.model.host.evidence import Check, CheckResult
from reconciler.model.moment import format_age
from reconciler.operations.show.evidence import Evidence, FactShown

LABEL = 11
STYLES = {
    CheckResult.PASS: Style.GOOD,
    CheckResult.FAIL: Style.BAD,
    CheckResult.UNKNOWN: Style.WARN,
}


def lines(found: Evidence) -> Iterator[TextLine]:
    yield line(strong(found.ref), f"  on {found.node}" if found.node else "  on no node")
    yield from _answer(found)
    for one in found.approvals:
        by = f"by {one.by} on {one.at}" if one.by else "by nobody"
        yield line(dim(column("approved", LABEL)), f"{', '.join(one.covers)} {by}", hang=LABEL)
    yield from _checks("READINESS", found.readiness)
    yield from _checks("HARDENING", found.hardening)
    yield from _facts(found.facts)
    yield from shown_view.proofs(found.proofs)
    if found.audit:
        yield BLANK
        yield line(strong("RECORD"))
        yield from (events_view.one(event) for event in found.audit)


def _answer(found: Evidence) -> Iterator[TextLine]:
    age = "" if found.age is None else f", {format_age(found.age)} old"
    words = {
        "answered": f"{found.at}{age}" if found.at else "never",
        "problem": found.problem,
        "source": found.source,
        "probe": f"version {found.probe}" if found.probe else "",
        "machine": found.machine_id,
        "boot": found.boot_id,
        "os": found.os,
        "driver": ", ".join(found.drivers),
    }
    for label, text in words.items():
        if text:
            yield line(dim(column(label, LABEL)), text, hang=LABEL)


def _checks(title: str, checks: Iterable[Check]) -> Iterator[TextLine]:
    for number, check in enumerate(checks):
        if not number:
            yield BLANK
            yield line(strong(title))
        yield line("  ", _result(check.result), f"{pad(check.name, 14)}  {check.value}", hang=26)


def _facts(facts: Iterable[FactShown]) -> Iterator[TextLine]:
    for number, fact in enumerate(facts):
        if not number:
            yield BLANK
            yield line(strong("FACTS"))
        wanted = fact.wanted or "absent"
        told = (
            wanted if fact.result is CheckResult.PASS else f"{fact.shown or 'absent'}, not {wanted}"
        )
        yield line("  ", _result(fact.result), conceal(f"{fact.key}  {told}"), hang=12)


def _result(result: CheckResult) -> Span:
    return Span(column(result.value, 8), STYLES[result])
