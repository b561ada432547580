"""Operations and their phases: when, how long, how they ended, and what hosts said."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.cli.text import BLANK, Span, Style, TextLine, conceal, dim, line, strong
from reconciler.cli.views import tables
from reconciler.model.moment import format_age
from reconciler.model.timeline import Operation, PhaseTold, Standing
from reconciler.operations.history.activity import Activity
from reconciler.operations.history.timeline import Timeline, seconds_of, stalled

TITLES = "PHASE STARTED TOOK STATE NODE DETAIL"
ACTIVITY = "WHEN WHO WHAT ABOUT STATE TOOK WHY"
STYLES = {
    Standing.DONE: Style.GOOD,
    Standing.FAILED: Style.BAD,
    Standing.UNKNOWN: Style.WARN,
    Standing.RUNNING: Style.PLACE,
}
LOG_LINES = 12


def lines(
    found: Timeline, *, logs: bool = False, last: int = 0, width: int = 0
) -> Iterator[TextLine]:
    yield line(strong(found.ref))
    now = " · ".join(filter(None, (found.phase or "not on the books", found.where)))
    yield line(dim("now  "), now)
    for operation in found.operations[-last:]:
        yield BLANK
        yield _head(operation)
        rows = [_row(phase, found.at) for phase in operation.phases]
        yield from tables.lines(TITLES, rows, width=width, right="TOOK")
        for phase in operation.phases:
            if logs or phase.state is not Standing.DONE:
                yield from _log(phase)
        yield from _moved(operation, found.at)


def activity(found: Activity, *, width: int = 0) -> Iterator[TextLine]:
    rows = [
        (
            one.progress or one.started,
            one.actor,
            one.name,
            one.ref.removeprefix("allocation/"),
            _state(one.state),
            _took(one.started, one.ended or found.at),
            _why(one),
        )
        for one in found.operations
    ]
    yield from tables.lines(ACTIVITY, rows, width=width, right="TOOK", none="nothing was done yet")


def _head(one: Operation) -> TextLine:
    """`CREATE  done  by olga in 3f9c2e1, run-000001  "why"`."""
    of = f" in {one.commit[:7]}" if one.commit else ""
    run = f", {one.run}" if one.run else ""
    why = f'  "{one.reason}"' if one.reason else ""
    return line(
        strong(one.name.upper()), "  ", _state(one.state), f"  by {one.actor}{of}{run}{why}"
    )


def _row(phase: PhaseTold, now: str) -> tuple[str | Span, ...]:
    return (
        phase.name,
        phase.started,
        _took(phase.started, phase.ended or now),
        _state(phase.state),
        phase.node,
        conceal(phase.detail),
    )


def _log(phase: PhaseTold) -> Iterator[TextLine]:
    for text in phase.log.splitlines()[-LOG_LINES:]:
        yield line(dim(f"  {phase.name} | "), conceal(text), hang=4)


def _moved(one: Operation, now: str) -> Iterator[TextLine]:
    if one.state is Standing.RUNNING:
        still = _took(one.progress, now)
        text = f"under way; last progress {still} ago"
        if stalled(one, now):
            yield line(Span(f"stalled: {text}", Style.BAD), "   gpuaas runbook run_stalled")
        else:
            yield line(dim(text))


def _state(state: Standing) -> Span:
    return Span(state.value, STYLES[state])


def _took(started: str, ended: str) -> str:
    seconds = seconds_of(started, ended)
    return "" if seconds is None else format_age(seconds)


def _why(one: Operation) -> str:
    """What went wrong comes before what was meant."""
    wrong = [phase.detail for phase in one.phases if phase.state is not Standing.DONE]
    return conceal(next((text for text in wrong if text), one.reason))
