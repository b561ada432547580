"""Why an allocation is placed where it is, or nowhere: every node with its rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from reconciler.cli.text import BLANK, Span, Style, TextLine, count, dim, line, strong
from reconciler.cli.views import problems as problems_view
from reconciler.cli.views import tables
from reconciler.cli.views.status import where
from reconciler.model.host.capacity import Candidate, Need
from reconciler.operations.views import Explained

TITLES = "NODE VERDICT SLOTS SCORE WHY"


def lines(found: Explained, *, width: int = 0) -> Iterator[TextLine]:
    yield line(strong(found.ref))
    if found.need is not None:
        yield line(dim("wants    "), _wish(found.need), hang=9)
    if found.placement is not None:
        place = where(found.placement.node, found.placement.slots)
        yield line(dim("placed   "), Span(place, Style.GOOD), f"   {found.placement.why}", hang=9)
    if found.problem is not None:
        yield from problems_view.one(found.problem)
    yield BLANK
    rows = [_row(candidate) for candidate in found.candidates]
    yield from tables.lines(TITLES, rows, width=width, none="no nodes")
    yield BLANK
    yield line(_counted(found), hang=2)


def _wish(need: Need) -> str:
    what = f"{count(need.slots, 'slot')} on one node" if need.slots else "a whole node"
    wishes = [what, f"SKU {need.sku}", "families " + ", ".join(need.families)]
    if need.rdma:
        wishes.append("RDMA")
    if need.pin:
        wishes.append(f"pinned to {need.pin}")
    return " · ".join(wishes)


def _row(candidate: Candidate) -> tuple[str | Span, ...]:
    fits = not candidate.rule
    return (
        candidate.node,
        Span("fits", Style.GOOD) if fits else Span(candidate.rule, Style.WARN),
        ",".join(candidate.slots),
        "/".join(str(part) for part in candidate.score),
        candidate.detail,
    )


def _counted(found: Explained) -> str:
    refused = Counter(candidate.rule for candidate in found.candidates)
    fitting = refused.pop("", 0)
    rules = [f"{number} {rule}" for rule, number in refused.most_common()]
    return " · ".join([f"{count(len(found.candidates), 'node')}: {fitting} fit", *rules])
