"""Tables: columns as wide as their content; records where a terminal is too narrow for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.cli.text import BLANK, Span, Style, TextLine, cells, dim, escape, line, pad

GAP = "  "
WIDEST = 100
"""So wide a column is made for its content: one long text would else widen every row."""

Cell = str | Span


Row = Sequence[Cell]


def lines(
    titles: str, rows: Sequence[Row], *, width: int = 0, right: str = "", none: str = ""
) -> Iterator[TextLine]:
    """A head of `titles` and a line a row; `width` 0 = as wide as needed, within reason.

    `right` names the right-bound titles, `none` is said instead of a table without rows. Columns
    that are empty in every row are left out.
    """
    if not rows:
        yield line(dim(none))
        return
    heads = titles.split()
    kept = [n for n, _ in enumerate(heads) if any(_text(row[n]) for row in rows)]
    whole = {n: max(cells(escape(_text(row[n]))) for row in (heads, *rows)) for n in kept}
    if width and sum(whole.values()) + len(GAP) * (len(kept) - 1) > width:
        yield from _records(heads, rows, kept)
        return
    wide = {n: min(most, WIDEST) for n, most in whole.items()}
    bound = right.split()
    yield line(*_row(heads, kept, wide, [n for n in kept if heads[n] in bound], Style.DIM))
    for row in rows:
        yield line(*_row(row, kept, wide, [n for n in kept if heads[n] in bound]))


def _row(
    row: Row,
    kept: Sequence[int],
    wide: dict[int, int],
    right: Sequence[int],
    style: Style = Style.PLAIN,
) -> Iterator[Cell]:
    for place, n in enumerate(kept):
        cell = row[n]
        own = cell.style if isinstance(cell, Span) else style
        yield Span((GAP if place else "") + pad(_text(cell), wide[n], right=n in right), own)


def _records(heads: Sequence[str], rows: Sequence[Row], kept: Sequence[int]) -> Iterator[TextLine]:
    for number, row in enumerate(rows):
        if number:
            yield BLANK
        for n in kept:
            if _text(row[n]):
                yield line(dim(f"{heads[n]} "), row[n], hang=2)


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Span) else cell
