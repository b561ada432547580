"""The status of the fleet as text: nodes, GPUs, what is free, what needs you, the allocations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import groupby

from reconciler.cli.text import BLANK, Span, Style, TextLine, column, count, dim, line, strong
from reconciler.cli.views import pages, suspended, tables
from reconciler.model.condition import NOTHING, OF_AGE, Health, Sync
from reconciler.model.moment import format_age, parse_moment
from reconciler.operations.views import AllocationRow, NeedsYou, PendingChanges, SkuRow, Status

LABEL = 11
TITLES = "ALLOCATION OWNER SKU WHERE SYNC HEALTH SESSIONS GPU% UNTIL PRICE/h"
GOOD = frozenset({Sync.IN_SYNC, Health.HEALTHY})
ON_ITS_WAY = frozenset({Sync.CHANGES, Sync.WAITING, Health.PROGRESSING, Health.UNKNOWN, NOTHING})
MOST_OF_A_KIND = 4
"""More needs of one kind than this are counted: `gpuaas doctor` has them all."""


def lines(
    found: Status,
    *,
    width: int = 0,
    ways: bool = False,
    most: int | None = None,
    loop: str = "",
) -> Iterator[TextLine]:
    """`ways` adds to each allocation how to get in and what is lost at its end.

    Of more allocations than `most` those are shown that somebody should look at, and the first.
    """
    yield from body(found, width=width, ways=ways, most=most)
    yield pages.foot(found.observed_age, found.source, loop)


def body(
    found: Status, *, width: int = 0, ways: bool = False, most: int | None = None
) -> Iterator[TextLine]:
    """All of it that is not another each second."""
    yield from () if found.source else _fleet(found)
    kept = shown(found, most)
    rows = [_row(row, found.at) for row in kept]
    right = "SESSIONS GPU% PRICE/h"
    yield from tables.lines(TITLES, rows, width=width, right=right, none="no allocations")
    if more := len(found.allocations) - len(kept):
        yield line(dim(f"… {more} more: gpuaas status --all"))
    yield from _ways(kept) if ways else ()


def shown(found: Status, most: int | None) -> Sequence[AllocationRow]:
    """All, or of more than `most` the gravest, and of these the first by name."""
    if most is None or len(found.allocations) <= most:
        return found.allocations
    return sorted(found.allocations, key=_gravity)[:most]


GRAVITY = (Style.BAD, Style.WARN, Style.GOOD)


def _gravity(row: AllocationRow) -> int:
    words = [toned(row.sync or NOTHING)]
    words += [] if row.health == NOTHING else [toned(row.health)]
    return min(GRAVITY.index(word.style) for word in words)


def _fleet(found: Status) -> Iterator[TextLine]:
    yield _labelled("fleet", count(sum(found.nodes.values()), "node"), _counted(found.nodes))
    yield _labelled("GPUs", f"{sum(found.gpus.values())}", _counted(found.gpus))
    if found.storage:
        yield _labelled("storage", f"{sum(found.storage.values())}", _counted(found.storage))
    if found.bundles:
        yield _labelled("bundles", f"{sum(found.bundles.values())}", _counted(found.bundles))
    if found.capacity:
        yield _labelled("free now", _free(found.capacity))
    yield _labelled("specs", _pending(found.pending), _last_run(found), f"state #{found.serial}")
    yield from _needs(found)
    yield from _suspended(found)
    yield BLANK


def _ways(rows: Sequence[AllocationRow]) -> Iterator[TextLine]:
    yield from (BLANK,) if rows else ()
    for row in rows:
        name = row.ref.removeprefix("allocation/")
        way = strong(row.way_in) if row.way_in else dim(f"not now: it is {row.phase}")
        dies = "   home and scratch die at release"
        lives = f", and this does not: {', '.join(row.storage)}" if row.storage else ""
        runs = f"   runs {', '.join(row.runtimes)}" if row.runtimes else ""
        yield line(dim(f"{name}  "), way, dim(dies + lives + runs), hang=4)


def where(node: str, slots: tuple[str, ...]) -> str:
    """`gpu17/s3+2` for three slots from s3 on; the node alone for a whole one."""
    if not slots:
        return node
    more = f"+{len(slots) - 1}" if len(slots) > 1 else ""
    return f"{node}/{slots[0]}{more}"


def toned(word: str) -> Span:
    """A state's word with the colour of its news; the word says the same."""
    if word in GOOD:
        return Span(word, Style.GOOD)
    return Span(word, Style.WARN if word in ON_ITS_WAY else Style.BAD)


def _labelled(label: str, *parts: str) -> TextLine:
    text = "   ".join(part for part in parts if part)
    return line(dim(column(label, LABEL)), text, hang=LABEL)


def _counted(numbers: Mapping[str, int]) -> str:
    return " · ".join(f"{number} {word}" for word, number in numbers.items() if number)


def _free(rows: tuple[SkuRow, ...]) -> str:
    return "   ".join(
        f"{row.sku}: {row.free}"
        + (f" (after cleanup {row.after_cleanup})" if row.after_cleanup > row.free else "")
        + (f" (by {row.by[:10]} {row.after_expiries})" if row.after_expiries > row.free else "")
        for row in rows
    )


def _last_run(found: Status) -> str:
    run = found.last_run
    if run is None:
        return "nothing applied yet"
    commit = f" of {run.commit[:7]}" if run.commit else ""
    return f"last run {run.state}{commit}, {run.started} by {run.actor}"


def _pending(pending: PendingChanges | None) -> str:
    """What is wanted and not done, of which commit; nothing where no plan was asked for."""
    if pending is None:
        return ""
    if pending.unknown:
        return f"no plan: {pending.unknown}"
    edits = " with edits" if pending.dirty else ""
    of = f"{pending.commit[:7]}{edits}: " if pending.commit else ""
    numbers = {
        "errors": pending.errors,
        "blocked": pending.blocked,
        "held": pending.held,
        "waiting": pending.waiting,
        "pending": pending.changes,
    }
    return of + (_counted(numbers) or "nothing pending")


def _needs(found: Status) -> Iterator[TextLine]:
    """The first few of each kind; how many there are stands before its word."""
    label = "needs you"
    for kind, alike in groupby(found.needs_you, key=lambda need: need.kind):
        needs = list(alike)
        shown = needs if len(needs) <= MOST_OF_A_KIND else needs[: MOST_OF_A_KIND - 1]
        word = f"{len(needs)} {kind}"
        for need in shown:
            yield _need(label, word, need)
            label = word = ""
        if left := len(needs) - len(shown):
            more = NeedsYou(kind=kind, text=f"and {left} more", command="gpuaas doctor")
            yield _need("", "", more)


def _need(label: str, word: str, need: NeedsYou) -> TextLine:
    return line(
        dim(column(label, LABEL)),
        Span(column(word, NEED), Style.WARN),
        need.text,
        dim(f"   {need.command}") if need.command else "",
        hang=LABEL + NEED,
    )


NEED = 13


def _suspended(found: Status) -> Iterator[TextLine]:
    for number, one in enumerate(found.suspended):
        yield _labelled("suspended" if not number else "", suspended.told(one))


def axis(word: str, cause: str, since: str, at: str) -> Span:
    """`degraded/card_missing 3 h`; of what is well neither cause nor age, and no age of seconds."""
    told = toned(word or NOTHING)
    now, began = parse_moment(at), parse_moment(since)
    if told.style is Style.GOOD:
        return told
    lasts = now - began if now and began else timedelta(0)
    age = f" {format_age(lasts.total_seconds())}" if lasts >= OF_AGE else ""
    return told._replace(text=f"{told.text}{f'/{cause}' if cause else ''}{age}")


def until(row: AllocationRow, at: str) -> str:
    """How long still, or since when no longer."""
    now, end = parse_moment(at), parse_moment(row.until)
    if end is None or now is None:
        return row.until or "open"
    seconds = (end - now).total_seconds()
    return format_age(seconds) if seconds > 0 else f"over {format_age(-seconds)}"


def _row(row: AllocationRow, at: str) -> tuple[str | Span, ...]:
    is_there = bool(row.node)
    unknown = "unknown" if is_there else "-"
    return (
        row.ref.removeprefix("allocation/"),
        row.owner or "-",
        row.sku or "-",
        where(row.node, row.slots) or "-",
        axis(row.sync, "", row.sync_since, at),
        axis(row.health, row.health_cause, row.health_since, at),
        unknown if row.sessions is None else str(row.sessions),
        "-" if row.gpu_percent is None else str(row.gpu_percent),
        until(row, at) if is_there else "-",
        f"{row.price_per_hour} {row.currency}".strip(),
    )
