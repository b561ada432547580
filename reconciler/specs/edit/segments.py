"""Segments: the text of each document of a file with its comments, from its `---` on.

What stands before the first `---` of a file is the file's own. Whoever calls holds what comes out
against what it should say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from yaml import events
from yaml._yaml import CParser

from reconciler.specs.read.text import offset_of

SEPARATOR = "---"


class Segment(NamedTuple):
    start: int
    end: int


def segments(text: str) -> Sequence[Segment]:
    """Where each document of a sound text stands, empty ones included."""
    starts: list[int] = []
    parser = CParser(text)
    while (event := parser.get_event()) is not None:
        if isinstance(event, events.DocumentStartEvent) and event.start_mark is not None:
            line = event.start_mark.line + 1
            starts.append(offset_of(text, line) if event.explicit or starts else 0)
        elif isinstance(event, events.StreamEndEvent):
            break
    ends = [*starts[1:], len(text)] if starts else []
    return [Segment(*both) for both in zip(starts, ends, strict=True)]


def segment_of(text: str, index: int) -> str:
    start, end = segments(text)[index]
    return text[start:end]


def replaced(text: str, index: int, segment: str) -> str:
    """The text, with one document replaced."""
    start, end = segments(text)[index]
    is_explicit = text.startswith(SEPARATOR, start)
    new = _like(segment, text)
    new = _explicit(new, text) if is_explicit else _bare(new)
    return text[:start] + (_ended(new, text) if end < len(text) else new) + text[end:]


def removed(text: str, index: int) -> str:
    start, end = segments(text)[index]
    return text[:start] + text[end:]


def appended(text: str, segment: str) -> str:
    """The text, with one more document at its end."""
    return _ended(text, text) + _explicit(_like(segment, text), text)


def _explicit(segment: str, text: str) -> str:
    return segment if segment.startswith(SEPARATOR) else SEPARATOR + _break(text) + segment


def _bare(segment: str) -> str:
    """Without a separator that says nothing else."""
    first, _, rest = segment.partition("\n")
    return rest if first.rstrip() == SEPARATOR else segment


def _ended(text: str, like: str) -> str:
    return text if not text or text.endswith("\n") else text + _break(like)


def _like(segment: str, text: str) -> str:
    """The document with the line ends of the file that it goes into."""
    plain = segment.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if _break(text) == "\r\n" else plain


def _break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
