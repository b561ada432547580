"""What an approval of a node has written, and that nothing has happened yet."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from reconciler.cli.text import BLANK, Span, Style, TextLine, dim, line, strong
from reconciler.cli.views import problems as problems_view
from reconciler.cli.views.node import short
from reconciler.operations.node.approve import ApprovedNode


def lines(found: ApprovedNode) -> Iterator[TextLine]:
    for problem in found.problems:
        yield from problems_view.one(problem)
        yield BLANK
    given = found.approval
    yield line(Span("approved ", Style.GOOD), f"{found.node}: {short(given.covers)}", hang=2)
    yield line(dim("by       "), f"{given.by} at {given.at}")
    for one in given.digests:
        yield line(dim("digest   "), f"{one.digest}  {one.name}")
    yield line(dim("written  "), f"{found.file}:{found.line}")
    if found.pending:
        yield line(dim("not yet  "), short(found.pending), hang=9)
    yield BLANK
    if found.commit:
        yield line(f"Committed as {found.commit[:7]}. Nothing has happened yet; to apply it:")
    else:
        yield line("Nothing has happened yet. Commit it, then apply:")
        words = f"git add {quote(found.file)} && git commit -m 'Approve {found.node}'"
        yield line("  ", strong(words))
    yield line("  ", strong("gpuaas apply"))


def written(name: str, file: str) -> Iterator[TextLine]:
    """What follows on a spec that `discover` wrote."""
    yield line(f"wrote {file}. Read it, change what you want otherwise, then:")
    yield line("  ", strong(f"gpuaas node approve {name}"))
