"""Cleanups as text: what is free, what stays blocked by which check, and who overrode it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.cli.text import Span, Style, TextLine, column, count, dim, line, pad, strong
from reconciler.cli.views import problems as problems_view
from reconciler.model.host.evidence import Check, CheckResult
from reconciler.operations.allocation.cleanup import Retried, Unproved, Vouched

STYLES = {
    CheckResult.PASS: Style.GOOD,
    CheckResult.FAIL: Style.BAD,
    CheckResult.UNKNOWN: Style.WARN,
}
BLOCKED = "cleanup_blocked"


def retried(found: Retried) -> Iterator[TextLine]:
    for place in found.freed:
        yield line(strong(place), " is ", Span("free", Style.GOOD), ": proved clean", hang=2)
    told = {one.place for one in found.left if one.checks}
    for one in found.left:
        yield line(strong(one.place), " stays ", Span("blocked", Style.BAD), f" by {one.ref}")
        yield from checks(one.checks)
    for problem in found.problems:
        if problem.code != BLOCKED or not told:
            yield from problems_view.one(problem)
    if found.left:
        yield line("  hint: ", f"gpuaas runbook {BLOCKED}", hang=8)


def unproved(shown: Iterable[Unproved]) -> Iterator[TextLine]:
    """What somebody is about to vouch for."""
    for one in shown:
        yield line(strong(one.place), f" was not proved clean of {one.ref}:", hang=2)
        yield from checks(one.checks)
    yield line("Whoever gets it next gets what is still there; on the host nothing is changed.")


def vouched(found: Vouched) -> Iterator[TextLine]:
    for one in found.freed:
        missing = f"{count(len(one.checks), 'check')} not passed" if one.checks else "no proof"
        yield line(
            strong(one.place),
            " is ",
            Span("free", Style.WARN),
            f" by the word of {found.actor}, and {missing}: {found.reason}",
            hang=2,
        )
    yield line(dim(f"it stays marked by that: gpuaas proof show {found.place}"))
    for problem in found.problems:
        yield from problems_view.one(problem)


def checks(shown: Iterable[Check]) -> Iterator[TextLine]:
    """A line a check: how it went, which, and what was measured."""
    listed = tuple(shown)
    width = max((len(check.name) for check in listed), default=0)
    for check in listed:
        result = Span(column(check.result.value, 8), STYLES[check.result])
        yield line("  ", result, pad(check.name, width), f"  {check.value}", hang=12 + width)
