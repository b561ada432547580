"""An edit of a spec: the patch of its file, and what comes after it is written."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.cli.text import BLANK, Span, Style, TextLine, conceal, dim, line
from reconciler.cli.views import next_steps
from reconciler.cli.views import problems as problems_view
from reconciler.operations.edit.contract import SpecEdit

STYLES = {"+": Style.GOOD, "-": Style.BAD, "@": Style.PLACE}


def lines(found: SpecEdit) -> Iterator[TextLine]:
    if not found.changes:
        yield line(f"{found.ref} says so already: {found.file}. Nothing was written.", hang=2)
        return
    done = "edited " if found.written else "to edit "
    yield line(Span(done, Style.GOOD), found.ref, "  ", dim(found.file), hang=2)
    yield BLANK
    yield from patch(found.patch)
    yield BLANK
    for problem in found.problems:
        yield from problems_view.one(problem)
        yield BLANK
    if found.written:
        yield from next_steps.lines(found.file, found.message, found.commit, is_new=False)


def patch(text: str) -> Iterator[TextLine]:
    for one in text.split("\n"):
        if one:
            yield line(Span(conceal(one.removesuffix("\r")), STYLES.get(one[0], Style.PLAIN)))
