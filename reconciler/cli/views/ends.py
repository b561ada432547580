"""What ends by itself: leases that run out, and releases that git can still take back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from reconciler.cli.text import (
    BLANK,
    Span,
    Style,
    TextLine,
    cells,
    column,
    dim,
    escape,
    line,
    pad,
    strong,
)
from reconciler.model.moment import format_age, parse_moment
from reconciler.model.plan.plan import End, EndState

MOST, LONGEST_REF = 20, 40


def lines(ends: Sequence[End], now: str) -> Iterator[TextLine]:
    """What ends soon; no lines where nothing does."""
    if not ends:
        return
    yield line(Span(column(f"… ENDS ({len(ends)})", 34), Style.WARN), "by themselves", hang=2)
    wide = min(max(cells(escape(str(one.ref))) for one in ends), LONGEST_REF)
    for one in ends[:MOST]:
        yield line("  ", strong(pad(str(one.ref), wide)), f"  {told(one, now)}", hang=6)
    if len(ends) > MOST:
        yield line(dim(f"  and {len(ends) - MOST} more: gpuaas plan -o json"))
    yield BLANK


def told(end: End, now: str) -> str:
    """The state, when it is over, and what can be done until then."""
    left = _left(end.at, now)
    if end.state is EndState.EXPIRES:
        return f"expires {end.at} ({left}, owner {end.owner})   gpuaas extend {end.ref}"
    if end.state is EndState.GRACE:
        return f"its time is over: released {end.at} ({left})   gpuaas extend {end.ref}"
    return f"quarantined: wiped from {end.at} on ({left}); until then a git revert restores it"


def _left(at: str, now: str) -> str:
    end, moment = parse_moment(at), parse_moment(now)
    if end is None or moment is None:
        return "unknown"
    left = end - moment
    return f"in {format_age(left.total_seconds())}" if left > timedelta(0) else "now"
