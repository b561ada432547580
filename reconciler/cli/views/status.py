"""The fleet at a glance: nodes, GPUs, what is free, what needs somebody, the allocations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.cli.text import BLANK, Line, Span, Style, count, dim, line, pad, strong
from reconciler.cli.views import tables
from reconciler.model.moment import format_age
from reconciler.operations.views import AllocationRow, SkuRow, Status

LABEL = 11
TITLES = "ALLOCATION OWNER SKU WHERE PHASE HEALTH SESSIONS UNTIL PRICE/h"
GOOD = frozenset({"active", "healthy", "in_sync"})
WAITING = frozenset({"providing", "active", "releasing", "unknown"})


def lines(found: Status, *, width: int = 0, ways: bool = False) -> Iterator[Line]:
    """`ways` adds to each allocation how to get in and what is lost at its end."""
    yield from () if found.source else _fleet(found)
    rows = [_row(row) for row in found.allocations]
    right = "SESSIONS PRICE/h"
    yield from tables.lines(TITLES, rows, width=width, right=right, none="no allocations")
    yield from _ways(found) if ways else ()
    age = found.observed_age
    told = "never observed" if age is None else f"observed {format_age(age)} ago"
    yield line(dim(f"{told}, as published at {found.source}" if found.source else told))


def _fleet(found: Status) -> Iterator[Line]:
    yield _labelled("fleet", count(sum(found.nodes.values()), "node"), _counted(found.nodes))
    yield _labelled("GPUs", f"{sum(found.gpus.values())}", _counted(found.gpus))
    if found.capacity:
        yield _labelled("free now", _free(found.capacity))
    yield _labelled("state", f"#{found.serial}", _last_run(found))
    yield from _needs(found)
    yield BLANK


def _ways(found: Status) -> Iterator[Line]:
    yield from (BLANK,) if found.allocations else ()
    for row in found.allocations:
        name = row.ref.removeprefix("allocation/")
        way = strong(row.way_in) if row.way_in else dim(f"not now: it is {row.phase}")
        yield line(dim(f"{name}  "), way, dim("   home and scratch die at release"), hang=4)


def where(node: str, slots: tuple[str, ...]) -> str:
    """`gpu17/s3+2` for three slots from s3 on; the node alone for a whole one."""
    if not slots:
        return node
    more = f"+{len(slots) - 1}" if len(slots) > 1 else ""
    return f"{node}/{slots[0]}{more}"


def phase(row: AllocationRow) -> str:
    """The coarse word, and the fine one behind it where that says more."""
    return row.phase if row.stage in ("", "ready", row.phase) else f"{row.phase}/{row.stage}"


def toned(word: str) -> Span:
    """A state's word with the colour of its news; the word says the same."""
    if word in GOOD:
        return Span(word, Style.GOOD)
    return Span(word, Style.WARN if word.partition("/")[0] in WAITING else Style.BAD)


def _labelled(label: str, *parts: str) -> Line:
    text = "   ".join(part for part in parts if part)
    return line(dim(pad(label, LABEL)), text, hang=LABEL)


def _counted(numbers: Mapping[str, int]) -> str:
    return " · ".join(f"{number} {word}" for word, number in numbers.items() if number)


def _free(rows: tuple[SkuRow, ...]) -> str:
    return "   ".join(
        f"{row.sku}: {row.free}"
        + (f" (after cleanup {row.after_cleanup})" if row.after_cleanup > row.free else "")
        for row in rows
    )


def _last_run(found: Status) -> str:
    run = found.last_run
    if run is None:
        return "nothing applied yet"
    commit = f" of {run.commit[:7]}" if run.commit else ""
    return f"last run {run.state}{commit}, {run.started} by {run.actor}"


def _needs(found: Status) -> Iterator[Line]:
    for number, need in enumerate(found.needs_you):
        label = "needs you" if number == 0 else ""
        yield line(
            dim(pad(label, LABEL)),
            Span(pad(need.kind, 10), Style.WARN),
            need.text,
            dim(f"   {need.command}") if need.command else "",
            hang=LABEL + 10,
        )


def _row(row: AllocationRow) -> tuple[str | Span, ...]:
    return (
        row.ref.removeprefix("allocation/"),
        row.owner or "-",
        row.sku or "-",
        where(row.node, row.slots) or "-",
        toned(phase(row)),
        toned(row.health),
        "unknown" if row.sessions is None else str(row.sessions),
        row.until or "open",
        f"{row.price_per_hour} {row.currency}".strip(),
    )
