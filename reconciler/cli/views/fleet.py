"""Nodes, slots and capacity as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.cli.text import Span, Style, TextLine
from reconciler.cli.views import tables
from reconciler.model.moment import format_age
from reconciler.operations.views import NodeRow, SkuRow, SlotRow

FINE = frozenset({"free", "held", "ok", "active", "available", "ready", "reusable"})


def nodes(rows: Iterable[NodeRow], *, width: int = 0) -> Iterator[TextLine]:
    titles = "NODE POSTURE REUSE ADMIN FAMILY ISOLATION SLOTS HELD FREE ANSWERED SOURCE NOTE"
    table: list[tables.Row] = [
        (
            row.name,
            _toned(row.posture),
            _toned(row.reuse),
            row.admin,
            row.family,
            row.isolation,
            str(row.slots),
            str(row.held),
            str(row.free),
            "never" if row.age is None else f"{format_age(row.age)} ago",
            row.source,
            " · ".join(
                filter(
                    None,
                    (f"also {', '.join(row.also)}" if row.also else "", row.problem, row.reason),
                )
            ),
        )
        for row in rows
    ]
    yield from tables.lines(titles, table, width=width, right="SLOTS HELD FREE", none="no nodes")


def slots(rows: Iterable[SlotRow], *, width: int = 0) -> Iterator[TextLine]:
    titles = "SLOT STATE REUSE SINCE ALLOCATION NUMA MODEL GPU CAUSE"
    table: list[tables.Row] = [
        (
            f"{row.node}/{row.slot}",
            _toned(row.state),
            _toned(row.reuse),
            row.since,
            row.allocation.removeprefix("allocation/"),
            "" if row.numa is None else str(row.numa),
            row.model,
            row.gpu,
            " · ".join(filter(None, (row.cause, row.vouched and f"unproved {row.vouched}"))),
        )
        for row in rows
    ]
    yield from tables.lines(titles, table, width=width, right="NUMA", none="no slots")


def capacity(rows: Iterable[SkuRow], *, width: int = 0) -> Iterator[TextLine]:
    titles = "SKU SHAPE GPUS FREE CLEAN WEEK HELD PRICE/GPU/h"
    table: list[tables.Row] = [
        (
            row.sku,
            row.shape,
            str(row.gpus),
            Span(str(row.free), Style.GOOD if row.free else Style.WARN),
            str(row.after_cleanup),
            str(row.after_expiries),
            str(row.held),
            f"{row.price_per_gpu_hour} {row.currency}".strip(),
        )
        for row in rows
    ]
    right = "GPUS FREE CLEAN WEEK HELD PRICE/GPU/h"
    yield from tables.lines(titles, table, width=width, right=right, none="no SKUs")


def _toned(word: str) -> Span:
    return Span(word, Style.PLAIN if word in FINE else Style.WARN)
