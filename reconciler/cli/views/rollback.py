"""A rollback: what is written, what it opens, what stays gone, and the plan that follows."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from reconciler.cli.text import BLANK, Span, Style, TextLine, column, dim, line, strong
from reconciler.cli.views import comparison
from reconciler.model.codec import encode
from reconciler.model.spec.rollback import Rollback, RollbackAction, RollbackNote

WORDS = {
    RollbackAction.CHANGED: "as it stood",
    RollbackAction.PUT_BACK: "put back",
    RollbackAction.TAKEN_OUT: "taken out: it was not there then",
}
LABEL = 10
MOST_PATCH = 400


def lines(found: Rollback) -> Iterator[TextLine]:
    done = "rolled back" if found.written else "to roll back"
    yield line(Span(f"{done} ", Style.GOOD), f"to {found.to[:7]}", hang=2)
    for one in found.reverted:
        yield line("  ", strong(str(one.ref)), f"  {WORDS[one.deed]}  ", dim(one.file), hang=6)
    if not found.files:
        yield line("  nothing: it stands as it stood then")
    for name in found.files if not found.reverted else ():
        yield line("  ", name)
    yield BLANK
    yield from _told("! OPENS", "shut since, or gone: they would be let in", found.opens)
    yield from _told(
        "! STAYS", "it would let in again what was shut since: --with-access", found.excluded
    )
    yield from _told("x GONE", "does not come back, or not as it was", found.lost)
    if not found.written and found.patch:
        patch = found.patch.splitlines()
        yield from (line(one) for one in patch[:MOST_PATCH])
        if len(patch) > MOST_PATCH:
            yield line(dim(f"and {len(patch) - MOST_PATCH} more lines: -o patch"))
        yield BLANK
    if found.comparison is not None:
        yield line(strong("What follows from it:"))
        yield from comparison.lines(found.comparison)
        yield BLANK
    if found.files:
        yield from _next(found)


def told(found: Rollback) -> Iterator[TextLine]:
    """The lines for the person, beside a patch for a program."""
    yield from _told("! OPENS", "shut since, or gone: they would be let in", found.opens)
    yield from _told("! STAYS", "it would let in again what was shut since", found.excluded)
    yield from _told("x GONE", "does not come back, or not as it was", found.lost)


def view(found: Rollback) -> dict[str, object]:
    """Documents are named, not repeated: the patch has their text."""
    return {
        "to": found.to,
        "reverted": [
            {"ref": str(one.ref), "file": one.file, "deed": one.deed.value}
            for one in found.reverted
        ],
        "files": list(found.files),
        "patch": found.patch,
        "lost": encode(found.lost),
        "opens": encode(found.opens),
        "excluded": encode(found.excluded),
        "plan": comparison.view(found.comparison) if found.comparison else None,
        "written": found.written,
        "commit": found.commit,
    }


def _told(title: str, note: str, every: Iterable[RollbackNote]) -> Iterator[TextLine]:
    sentences = list(every)
    if sentences:
        yield line(Span(column(f"{title} ({len(sentences)})", 18), Style.WARN), note, hang=2)
        for one in sentences:
            yield line("  ", strong(str(one.ref)), f"  {one.text}", hang=6)
        yield BLANK


def _next(found: Rollback) -> Iterator[TextLine]:
    if found.commit:
        yield line(f"Committed as {found.commit[:7]}. Nothing has happened yet; to apply it:")
    elif found.written:
        yield line("Nothing has happened yet. Look at it, commit it, then apply:")
        yield line("  ", strong(shlex.join(["git", "add", "-A", "--", *found.files[:MOST_FILES]])))
        yield line("  ", strong(shlex.join(["git", "commit", "-m", found.message])))
    else:
        yield line("Nothing was written. To write it: --write, or --commit; as a patch: -o patch")
        return
    yield line("  ", strong("gpuaas apply"))


MOST_FILES = 20
