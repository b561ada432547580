"""Pages: lines as plain JSON values and back, and the last line of every status page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from reconciler.cli.text import Span, Style, TextLine, dim, line
from reconciler.model.moment import format_age


def kept(lines: Iterable[TextLine]) -> list[object]:
    return [[one.hang, *([span.text, span.style.value] for span in one.spans)] for one in lines]


def shown(value: Iterable[Any]) -> Iterator[TextLine]:
    styles = {style.value: style for style in Style}
    for hang, *spans in value:
        yield TextLine(tuple(Span(text, styles[style]) for text, style in spans), hang)


def foot(age: int | None, source: str = "", loop: str = "") -> TextLine:
    """What is another each second, and so is never kept; `loop` is how the loop is."""
    told = "never observed" if age is None else f"observed {format_age(age)} ago"
    parts = [f"{told}, as published at {source}" if source else told, loop]
    return line(dim("   ".join(filter(None, parts))))
