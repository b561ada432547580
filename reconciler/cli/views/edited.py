"""What a command has written into a spec, and that nothing has happened yet."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from reconciler.cli.text import BLANK, Span, Style, TextLine, column, dim, line, strong

LABEL = 9


def lines(done: str, what: str, rows: Mapping[str, str], message: str) -> Iterator[TextLine]:
    """`done` is a word for it, `rows` hold `written` (file:line) and what else is to be said.

    `message` is that of the commit that is still to be made; with a row `commit` there is one.
    """
    yield line(Span(f"{done} ", Style.GOOD), what, hang=2)
    for label, text in rows.items():
        yield line(dim(column(label, LABEL)), text, hang=LABEL)
    yield BLANK
    if commit := rows.get("commit"):
        yield line(f"Committed as {commit[:7]}. Nothing has happened yet; to apply it:")
    else:
        yield line("Nothing has happened yet. Commit it, then apply:")
        file = rows["written"].rpartition(":")[0]
        words = ("git", "commit", "-m", message, "--", file)
        yield line("  ", strong(shlex.join(words)))
    yield line("  ", strong("gpuaas apply"))
