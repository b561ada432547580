"""A runbook as text: what it concerns in this fleet now, then the page itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.cli.text import BLANK, Span, Style, TextLine, conceal, dim, line, strong
from reconciler.cli.views import events as events_view
from reconciler.operations.history.runbook import Fact, PageTold, Runbook


def lines(found: Runbook) -> Iterator[TextLine]:
    if found.meaning:
        yield line(strong(found.word), f"  {found.meaning}")
        yield BLANK
    yield line(strong("NOW"))
    if found.unknown:
        yield line("  unknown: ", found.unknown, hang=4)
    elif not found.facts:
        yield line("  ", Span("nothing of it in this fleet", Style.GOOD))
    for fact in found.facts:
        yield from _fact(fact)
    for event in found.lately:
        yield line("  ", dim("recorded "), *events_view.one(event).spans, hang=4)
    yield BLANK
    for text in found.text.splitlines():
        yield line(strong(text) if text.startswith("#") else text, hang=3)


def listed(pages: Sequence[PageTold]) -> Iterator[TextLine]:
    for one in pages:
        yield line(strong(one.page), f"  {one.title}")
        yield line("    ", dim(" ".join(one.codes)), hang=4)


def _fact(fact: Fact) -> Iterator[TextLine]:
    since = f"  since {fact.since}" if fact.since else ""
    text = fact.text if fact.about in fact.text else f"{fact.about}: {fact.text}"
    yield line("  ", conceal(text), dim(since), hang=4)
    if fact.command:
        yield line(dim("    next "), fact.command, hang=9)
