"""What a command has written about a node, and that nothing has happened yet."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.cli.text import TextLine, line
from reconciler.cli.views import edited
from reconciler.operations.node.drain import Administered
from reconciler.operations.node.retry import Cleared


def lines(found: Administered) -> Iterator[TextLine]:
    place = f"{found.file}:{found.line}"
    if not found.changed:
        yield line(f"{found.ref} is {found.state} already: {place}. Nothing was written.")
        return
    rows = {"was": found.before, "reason": found.reason, "until": found.until, "written": place}
    rows["commit"] = found.commit
    known = {label: text for label, text in rows.items() if text}
    word = "drain" if found.reason else "undrain"
    message = f"{word.capitalize()} {found.ref}" + (f": {found.reason}" if found.reason else "")
    yield from edited.lines(word, f"{found.ref} is to be {found.state}", known, message)


def cleared(found: Cleared) -> Iterator[TextLine]:
    if found.failed:
        yield line(f"node/{found.node} {found.failed}")
        yield line("That counts against it no more: the next apply asks it like any other.")
    else:
        yield line(f"nothing counts against node/{found.node}")
