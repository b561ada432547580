"""Findings of `doctor`, by sort: what is wrong, since when, the next command and the runbook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from reconciler.cli.text import BLANK, Span, Style, TextLine, column, count, dim, line
from reconciler.model.symptom import WANTS_SOMEBODY, Diagnosis, Sort

LABEL = 9
STYLES = {Sort.ALARM: Style.BAD, Sort.STUCK: Style.BAD, Sort.OVERDUE: Style.WARN}


def lines(found: Sequence[Diagnosis]) -> Iterator[TextLine]:
    if not found:
        yield line(Span("nothing is stuck, overdue or stale", Style.GOOD))
        return
    for sort in Sort:
        alike = [one for one in found if one.sort is sort]
        if alike:
            yield line(
                Span(column(sort.upper(), LABEL), STYLES.get(sort, Style.PLAIN)), f"{len(alike)}"
            )
        for code, same in groupby(alike, key=lambda one: one.code):
            yield from _code(code, list(same))
        yield from (BLANK,) if alike else ()
    wants = sum(one.sort in WANTS_SOMEBODY for one in found)
    yield line(f"{count(len(found), 'finding')}, {wants} of them need somebody")


def _code(code: str, found: Sequence[Diagnosis]) -> Iterator[TextLine]:
    """All of one code, and its runbook once."""
    for one in found:
        since = dim(f"   since {one.since}") if one.since else ""
        yield line("  ", one.text, since, hang=4)
        if one.command:
            yield line(dim("    next     "), one.command, hang=13)
    yield line(dim("    runbook  "), f"gpuaas runbook {code}", hang=13)
