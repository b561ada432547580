"""The four states of one resource as a table: a column each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reconciler.cli.text import BLANK, Span, Style, TextLine, dim, line, strong
from reconciler.cli.views import tables

if TYPE_CHECKING:
    from reconciler.operations.show.states import StateRow, States

TITLES = "WHAT DESIRED OBSERVED EXECUTION PROJECTED"


def lines(found: States, *, width: int = 0) -> Iterator[TextLine]:
    yield line(strong(found.ref))
    yield BLANK
    yield from tables.lines(TITLES, [_row(row) for row in found.rows], width=width)
    yield BLANK
    if found.observed_at:
        yield line(dim(f"observed {found.observed_at} by {found.by or 'nobody: no answer'}"))
    if any(row.stale for row in found.rows):
        yield line(dim("! stale: made from evidence that is too old; gpuaas plan --refresh"))


def _row(row: StateRow) -> tables.Row:
    shown = Span(f"{row.projected} !", Style.WARN) if row.stale else row.projected
    return (row.what, row.desired, row.observed, row.execution, shown)
