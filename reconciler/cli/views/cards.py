"""GPUs of allocations as text: how busy they were, and how much of their memory was in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from reconciler.cli.text import TextLine
from reconciler.cli.views import tables
from reconciler.model.moment import format_age, parse_moment
from reconciler.operations.usage import CardRow

UNKNOWN = "unknown"


def lines(rows: Sequence[CardRow], now: datetime, *, width: int) -> Iterator[TextLine]:
    told = [
        (
            row.ref.removeprefix("allocation/"),
            f"{row.node}/{row.slot}",
            row.model,
            _known(row.percent),
            _known(row.memory_used_mib),
            _known(row.memory_mib),
            _age(row, now),
        )
        for row in rows
    ]
    titles, right = "ALLOCATION WHERE MODEL GPU% USED-MIB OF-MIB AGE", "GPU% USED-MIB OF-MIB AGE"
    yield from tables.lines(titles, told, width=width, right=right, none="no cards in use")


def _known(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _age(row: CardRow, now: datetime) -> str:
    moment = parse_moment(row.at)
    return format_age((now - moment).total_seconds()) if moment else "never"
