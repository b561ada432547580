"""Access as text: who may log in where and why, key by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.cli.text import BLANK, Span, Style, TextLine, dim, line, strong
from reconciler.cli.views import tables
from reconciler.operations.views import AccessReview, AccessRow

MOST = 50
"""Keys lying about on one node."""
TITLES = "ALLOCATION USER STATE PRIVILEGE UNTIL BY REASON"


def lines(found: AccessReview, *, asked: Sequence[str] = (), width: int = 0) -> Iterator[TextLine]:
    """The review; `asked` says about whom and what it is, where it is not about everything."""
    rows = [_row(row) for row in found.rows]
    none = f"nobody is let in: {', '.join(asked)}" if asked else "nobody is let in anywhere"
    yield from tables.lines(TITLES, rows, width=width, none=none)
    for title, told in (("KEYS", _keys(found)), ("KEYS WITHOUT EFFECT", _strays(found))):
        if told:
            yield BLANK
            yield line(strong(title))
            yield from (line("  ", text, hang=4) for text in told)
    if found.pending:
        yield BLANK
        yield line(Span("REVOCATIONS PENDING", Style.BAD))
    for one in found.pending:
        people = ", ".join(one.people)
        yield line("  ", f"{people}  {one.ref} on {one.node} since {one.since}", hang=4)
    if found.unseen:
        yield BLANK
        yield line(dim(f"keys of people's own, unknown on: {', '.join(found.unseen)}"), hang=2)


def _row(row: AccessRow) -> tables.Row:
    tone = Style.GOOD if row.state == "active" else Style.WARN
    by = "access" if row.cause == row.allocation else row.cause.removeprefix("grant/")
    return (
        row.allocation.removeprefix("allocation/"),
        row.user,
        Span(row.state, tone),
        row.privilege,
        row.until or "open",
        by,
        row.reason,
    )


def _keys(found: AccessReview) -> list[str]:
    """Each person's keys once, however many doors they open."""
    return sorted({f"{row.user}/{key}" for row in found.rows for key in row.keys})


def _strays(found: AccessReview) -> list[str]:
    """Stray keys; of very many on one node, the first ones and the number of the others."""
    by_node: dict[str, list[str]] = {}
    for one in found.strays:
        told = f"{one.key}  home of {one.login} on {one.node} ({one.ref})"
        by_node.setdefault(one.node, []).append(told)
    shown = []
    for node, told_there in by_node.items():
        shown += told_there[:MOST]
        if len(told_there) > MOST:
            shown.append(f"{len(told_there) - MOST} more on {node}: gpuaas drift node/{node}")
    return shown
