"""Problems as text: where, what, the line itself with a caret, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from reconciler.cli.text import (
    BLANK,
    Span,
    Style,
    TextLine,
    cells,
    conceal,
    count,
    dim,
    escape,
    line,
    strong,
)
from reconciler.model.problem import Problem, Source


def lines(problems: Sequence[Problem]) -> Iterator[TextLine]:
    """Every problem, with a blank line between two."""
    for number, problem in enumerate(problems):
        if number:
            yield BLANK
        yield from one(problem)


def one(problem: Problem) -> Iterator[TextLine]:
    """`file:line:column: error: message [code]`, as editors and forges read it."""
    word = _word(problem)
    place = where(problem.source) or problem.ref
    head = (Span(place, Style.PLACE), ": ") if place else ()
    yield line(*head, word, f": {problem.message} ", dim(f"[{problem.code}]"), hang=2)
    if problem.source is not None:
        yield from _excerpt(problem.source)
    if problem.hint:
        yield line("  hint: ", problem.hint, hang=8)


def _word(problem: Problem) -> Span:
    style = Style.BAD if problem.is_error else Style.WARN
    return Span(problem.severity.value, style)


def where(source: Source | None) -> str:
    """`file:line:column`, as much of it as is known."""
    if source is None:
        return ""
    numbers = (source.line, source.column) if source.line else ()
    return ":".join([source.file, *(str(number) for number in numbers if number)])


def counted(problems: Iterable[Problem]) -> str:
    """`2 errors, 1 warning`; empty if there are none."""
    found = list(problems)
    errors = sum(problem.is_error for problem in found)
    return ", ".join(
        count(number, word)
        for number, word in ((errors, "error"), (len(found) - errors, "warning"))
        if number
    )


def _excerpt(source: Source) -> Iterator[TextLine]:
    """The source line and the path in it; the caret counts columns as they are shown."""
    shown = conceal(source.text)
    if shown.strip():
        number = str(source.line)
        yield line(dim(f"  {number} | "), shown.rstrip())
        if source.column and shown == source.text:
            before = cells(escape(source.text[: source.column - 1]))
            yield line(dim(f"  {' ' * len(number)} | "), " " * before, Span("^", Style.BAD))
    if source.path:
        yield line(dim("  at: "), source.dotted, hang=6)


def refusal(problems: Sequence[Problem]) -> Iterator[TextLine]:
    """Problems that ended a command, counted if there are many."""
    yield from lines(problems)
    if len(problems) > 1:
        yield BLANK
        yield line(strong(counted(problems)))
