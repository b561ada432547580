"""Text for a terminal: the one place where foreign text becomes safe to show.

Every line on the screen is made of spans, and every span passes through `escape` when it is
rendered, so that no view can forget it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple


class Style(StrEnum):
    """What a span means; a terminal that shows colours maps it to one, all others to nothing."""

    PLAIN = ""
    STRONG = "1"
    DIM = "2"
    BAD = "1;31"
    GOOD = "32"
    WARN = "33"
    PLACE = "36"


class Span(NamedTuple):
    text: str
    style: Style = Style.PLAIN


class TextLine(NamedTuple):
    """`hang` is the column at which a line goes on that is wider than the terminal."""

    spans: tuple[Span, ...] = ()
    hang: int = 0


def line(*parts: str | Span, hang: int = 0) -> TextLine:
    return TextLine(tuple(p if isinstance(p, Span) else Span(p) for p in parts), hang)


def strong(text: str) -> Span:
    return Span(text, Style.STRONG)


def dim(text: str) -> Span:
    return Span(text, Style.DIM)


BLANK = TextLine()
SYMBOLS = str.maketrans({"·": "-", "≠": "!=", "…": "...", "×": "x", "→": "->", "≤": "<="})
"""What stands for our own symbols where the output cannot encode them."""


def escape(text: str) -> str:
    """`text` on one line, without anything that could steer a terminal or hide its true order.

    Control characters, newlines, bidi and other invisible marks and lone surrogates become their
    Python escapes.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cells(text: str) -> int:
    """How many columns `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def count(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def pad(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled up with spaces to `width` columns; it is counted as it will be shown."""
    spaces = " " * max(0, width - cells(escape(text)))
    return spaces + text if right else text + spaces


def column(text: str, width: int) -> str:
    """Like `pad`, for text that more text follows: always with a blank between the two."""
    return pad(text, max(width, cells(escape(text)) + 1))


def render(content: TextLine, *, width: int = 0, color: bool = False) -> str:
    """One line of output, broken at spaces if it is wider than `width` (0 = never)."""
    if not (width or color):
        return "".join([escape(span.text) for span in content.spans]).rstrip(" ")
    pieces: Iterable[Span] = (
        Span(word, span.style)
        for span in content.spans
        for word in re.findall(r" +|[^ ]+", escape(span.text))
    )
    if width:
        pieces = _fold(pieces, width, min(content.hang, max(2, width // 3)))
    shown = ""
    for style, run in groupby(pieces, key=lambda piece: piece.style):
        text = "".join(piece.text for piece in run)
        shown += f"\x1b[{style}m{text}\x1b[0m" if color and style else text
    return shown.rstrip(" ")


def _fold(pieces: Iterable[Span], width: int, hang: int) -> Iterator[Span]:
    """The same words with line breaks; the spaces at a break are dropped."""
    column, gap, begun = 0, Span(""), False
    for piece in pieces:
        if piece.text.startswith(" "):
            gap = Span(gap.text + piece.text, piece.style)
            continue
        if begun and column + len(gap.text) + cells(piece.text) > width:
            yield Span("\n" + " " * hang)
            column, gap = hang, Span("")
        yield gap
        yield piece
        column, gap, begun = column + len(gap.text) + cells(piece.text), Span(""), True


_SECRET_FIELD = re.compile(
    r"""(?ix) ( (?<![\w.-]) [\w.-]* (?: password | passwd | secret | token | credential | api_?-?key
        | private_?-?key ) [\w-]* ["']? \s* [:=] \s* ) (?! \s | [\[{|>] ) .+ """
)
_SECRET_BLOCK = re.compile(r"-----BEGIN|PRIVATE KEY|\b(?:hf_|ghp_|glpat-|AKIA|sk-)\w{8,}")
HIDDEN = "(hidden)"


def conceal(text: str) -> str:
    """A line of a spec without the value of a field that is called like a secret."""
    if _SECRET_BLOCK.search(text):
        return HIDDEN
    return _SECRET_FIELD.sub(lambda found: found[1] + HIDDEN, text)
