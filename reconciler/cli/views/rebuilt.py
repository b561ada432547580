"""What a rebuild has found on hosts, and what it would write to the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from reconciler.cli.text import BLANK, Span, Style, TextLine, count, dim, line, strong
from reconciler.cli.views import problems as problems_view
from reconciler.cli.views import tables

if TYPE_CHECKING:
    from reconciler.operations.state.rebuild_findings import Finds, FoundRow, VolumeRow

WORDS = {
    "as_applied": Span("as applied", Style.GOOD),
    "differs": Span("differs", Style.WARN),
    "unwanted": Span("unwanted", Style.WARN),
    "unverified": Span("not believed", Style.BAD),
}

DATA = {
    "made": Span("in use", Style.GOOD),
    "kept": Span("kept", Style.WARN),
    "": Span("not believed", Style.BAD),
}


def lines(found: Finds, *, width: int = 0) -> Iterator[TextLine]:
    """The finds, the nodes that stay in doubt, and what is left to people."""
    yield line(strong(f"STATE {found.state_id}"), f"   {_counted(found)}")
    yield BLANK
    rows = [_row(one) for one in found.found]
    titles = "ALLOCATION ID NODE SLOTS VERDICT WHY"
    yield from tables.lines(titles, rows, width=width, none="no node holds an allocation")
    yield BLANK
    if found.volumes:
        titles = "STORAGE ID NODE SIZE DATA WHY"
        yield from tables.lines(titles, [_volume(one) for one in found.volumes], width=width)
        yield BLANK
    silent = [one.node for one in found.nodes if not one.answered]
    answered = count(len(found.nodes) - len(silent), "node")
    yield line(f"{answered} answered", f", {', '.join(silent)} did not" if silent else "")
    for problem in found.problems:
        yield BLANK
        yield from problems_view.one(problem)


def done(found: Finds, *, lost: bool) -> Iterator[TextLine]:
    yield BLANK
    what = f"rebuilt state {found.state_id}" if lost else "taken in"
    yield line(Span(what, Style.GOOD), "; no host was changed. Next: ", strong("gpuaas plan"))


def _counted(found: Finds) -> str:
    numbers = Counter(row.verdict.value for row in found.found)
    return " · ".join(f"{numbers[v]} {word.text}" for v, word in WORDS.items() if numbers[v])


def _row(one: FoundRow) -> tables.Row:
    ref = one.ref.removeprefix("allocation/")
    return (ref, one.id, one.node, " ".join(one.slots), WORDS[one.verdict.value], dim(one.why))


def _volume(one: VolumeRow) -> tables.Row:
    size = f"{one.size_gib} GiB" if one.state else ""
    who = f"attached to {', '.join(one.attached)}" if one.attached else one.why
    word = DATA[one.state]
    return (one.ref.removeprefix("storage/"), one.id, one.node, size, word, dim(who))
