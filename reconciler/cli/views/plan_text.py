"""A plan for the terminal; order and density follow what an operator has to decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.cli.text import (
    BLANK,
    Span,
    Style,
    TextLine,
    cells,
    column,
    count,
    dim,
    escape,
    line,
    pad,
    strong,
)
from reconciler.cli.views import ends, suspended
from reconciler.cli.views import problems as problems_view
from reconciler.cli.views.plan_words import (
    advice,
    apart,
    details,
    fact,
    group_details,
    group_fact,
    header,
    summary,
)
from reconciler.cli.views.sections import Section, sections
from reconciler.model.plan.plan import Change, Plan, Risk

LABEL = 8
WIDEST_CLASS = 9
LONGEST_REF = 40
MOST_NOTES = 20
MOST_SILENT = 8
"""A fleet that was never asked is silent as a whole; the rest is counted."""


def lines(
    plan: Plan, at_least: Risk = Risk.SAFE, *, advise: bool = True, expand: bool = False
) -> Iterator[TextLine]:
    """The whole plan; `at_least` leaves out changes of a lower risk and says so.

    Without `advise` it does not say how to apply it: somebody is about to. What a new version of
    the program brings is told in groups, unless they are to `expand`.
    """
    yield line(dim(header(plan)), hang=2)
    yield BLANK
    yield from body(plan, at_least, expand=expand)
    yield from foot(plan, advise=advise)


def body(plan: Plan, at_least: Risk = Risk.SAFE, *, expand: bool = False) -> Iterator[TextLine]:
    """All between the header and the foot."""
    if plan.problems:
        yield from problems_view.lines(plan.problems)
        yield BLANK
    shown = 0
    for section in sections(plan, at_least):
        yield from block(section, plan, expand=expand)
        yield BLANK
        shown += len(section.changes)
    yield from ends.lines(plan.ends, plan.made_at)
    for one in plan.suspended:
        yield line(f"suspended  {suspended.told(one)}", hang=11)
    yield from _notes(plan)
    yield from _unknown(plan)
    if hidden := len(plan.changes) - shown:
        yield line(dim(f"not shown: {count(hidden, 'change')} of a lower risk"))


def foot(plan: Plan, *, advise: bool = True) -> Iterator[TextLine]:
    """The summary alone."""
    for number, text in enumerate(summary(plan)):
        yield line(strong(text) if number == 0 else text, hang=2)
    if advise and (text := advice(plan)):
        yield line(text, hang=2)


def block(section: Section, plan: Plan, *, expand: bool = False) -> Iterator[TextLine]:
    """A title, and below it each change with its details."""
    title = f"{section.word.symbol} {section.word.title} ({len(section.changes)})"
    yield line(Span(column(title, 34), section.style), Span(section.note, section.style), hang=2)
    single, groups = (section.changes, []) if expand else apart(section.changes)
    wide = max((cells(escape(str(change.ref))) for change in single), default=0)
    for change in single:
        yield from _change(change, min(wide, LONGEST_REF))
    for group in groups:
        yield line("  ", strong(group_fact(group, plan)), hang=6)
        yield from _details(group_details(group))


def _change(change: Change, wide: int) -> Iterator[TextLine]:
    yield line("  ", strong(pad(str(change.ref), wide)), "  ", fact(change), hang=6)
    yield from _details(details(change))


def _details(told: Iterable[tuple[str, str]]) -> Iterator[TextLine]:
    for label, text in told:
        yield line("      ", dim(column(label, LABEL)), text, hang=6 + LABEL)


def _notes(plan: Plan) -> Iterator[TextLine]:
    """Drift without a remedy of ours: it is told, and stays."""
    if not plan.notes:
        return
    yield line(
        Span(column(f"≠ DRIFT ({len(plan.notes)})", 34), Style.GOOD), "reported, no more", hang=2
    )
    wide = min(max(cells(escape(str(note.ref))) for note in plan.notes), LONGEST_REF)
    for note in plan.notes[:MOST_NOTES]:
        words = (
            strong(pad(str(note.ref), wide)),
            f"  {column(note.topic, WIDEST_CLASS)}",
            note.text,
        )
        by = (dim(f" · {note.accepted}"),) if note.accepted else ()
        yield line("  ", *words, *by, hang=6)
    if len(plan.notes) > MOST_NOTES:
        yield line(dim(f"  and {len(plan.notes) - MOST_NOTES} more: gpuaas drift"))
    yield BLANK


def _unknown(plan: Plan) -> Iterator[TextLine]:
    """Nothing seen is not nothing there: silent nodes are told even if nothing changes."""
    silent = plan.figures.silent
    if not silent:
        return
    title = Span(column(f"? UNKNOWN ({len(silent)})", 34), Style.WARN)
    yield line(title, "nothing is assumed about them; ask: gpuaas plan --refresh", hang=2)
    named = list(silent.items())[:MOST_SILENT]
    wide = max(cells(escape(name)) for name, _ in named)
    for name, said in named:
        yield line("  ", strong(pad(f"node/{name}", wide + 5)), "  ", said, hang=6)
    if len(silent) > MOST_SILENT:
        yield line(dim(f"  and {len(silent) - MOST_SILENT} more: gpuaas nodes"))
    yield BLANK
