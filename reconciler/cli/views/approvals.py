"""Approvals as text: held changes, those with the same reason together, and approvals in force."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.cli.text import BLANK, Span, Style, TextLine, count, dim, line, strong
from reconciler.cli.views import problems as problems_view
from reconciler.cli.views import tables
from reconciler.model.plan.approval import Consent
from reconciler.operations.approval.approvals import Approvals, ApprovedChanges, HeldChange

HELD = "ID RESOURCE ACTION RISK AUTHOR FILE"
GIVEN = "RESOURCE ACTION BY GIVEN UNTIL USED REASON"
MOST = 50


def lines(found: Approvals, *, width: int = 0) -> Iterator[TextLine]:
    yield from problems_view.lines(found.problems)
    if not found.held:
        yield line(dim("nothing is held"))
    by_why: dict[tuple[str, str], list[HeldChange]] = {}
    for one in found.held:
        by_why.setdefault((one.code, one.why), []).append(one)
    for (code, why), held in by_why.items():
        yield line(Span(f"{code} ", Style.WARN), why, hang=2)
        rows = [_row(one) for one in held[:MOST]]
        yield from tables.lines(HELD, rows, width=width)
        if len(held) > MOST:
            yield line(f"{len(held) - MOST} more: ", strong("gpuaas approvals -o json"))
        yield BLANK
    for each in found.sets:
        yield line(
            f"all {len(each.refs)} of {each.code}: ",
            strong(f"gpuaas approve {each.id} --reason TEXT"),
            hang=2,
        )
    if found.given:
        yield from [BLANK] if found.sets or not found.held else []
        yield line(dim("approved"))
        given = [_given(one) for one in found.given[-MOST:]]
        yield from tables.lines(GIVEN, given, width=width)


def approved(found: ApprovedChanges) -> Iterator[TextLine]:
    for one in found.changes:
        yield line(Span("approved ", Style.GOOD), f"{one.action} {one.ref} ({one.risk})", hang=2)
    yield line(dim("until    "), found.until)
    yield line(dim("reason   "), found.reason, hang=9)
    yield line(f"{count(len(found.changes), 'change')}: the next plan does what was approved")


def _row(one: HeldChange) -> tables.Row:
    author = " ".join(filter(None, (one.author, one.commit[:7])))
    return (one.id or "-", one.ref, one.action, one.risk, author, one.file)


def _given(one: Consent) -> tables.Row:
    used = one.used_at or "no"
    return (str(one.ref), one.action, one.actor, one.at, one.expires_at, used, one.reason)
