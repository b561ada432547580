"""Usage: what an allocation has used and costs so far, and how busy its GPUs were.

Use is what its billing records say. Utilisation is what the host last said, with the age of that;
what it did not say is unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from typing import Any

from reconciler.kinds.node.spec import NODES
from reconciler.model.host.evidence import GpuFact
from reconciler.model.moment import format_age, parse_moment
from reconciler.model.records import dataclass
from reconciler.model.state.world import Recorded, World
from reconciler.planner.changes.text import UNKNOWN

HOUR, CENTS = Decimal(3600), Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """GPU-hours and their price by currency, up to now; `unpriced` are those without any price.

    `running` says that more is used at this moment.
    """

    since: str
    gpu_hours: str
    cost: Mapping[str, str] = field(default_factory=dict)
    unpriced_gpu_hours: str = ""
    running: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRow:
    """One card of an allocation, as its host last told at `at`; None = it did not say."""

    ref: str
    node: str
    slot: str
    uuid: str
    model: str
    percent: int | None = None
    memory_used_mib: int | None = None
    memory_mib: int | None = None
    at: str = ""


def used(records: Iterable[Mapping[str, Any]], now: datetime) -> Used | None:
    """The usage in the billing records of one allocation; None where nothing was used yet."""
    hours, unpriced = Decimal(0), Decimal(0)
    cost: dict[str, Decimal] = {}
    since, running = "", False
    for one in records:
        begin, end = parse_moment(one["started"]), parse_moment(one["ended"]) or now
        if begin is None:
            continue
        since = min(since or one["started"], one["started"])
        running = running or not one["ended"]
        spent = max(Decimal(0), Decimal(str((end - begin).total_seconds())))
        gpu_hours = spent * int(one["gpus"]) / HOUR
        hours += gpu_hours
        price, currency = one["price_per_gpu_hour"], one["currency"]
        if price and currency:
            cost[currency] = cost.get(currency, Decimal(0)) + gpu_hours * Decimal(price)
        else:
            unpriced += gpu_hours
    if not since:
        return None
    return Used(
        since=since,
        gpu_hours=_rounded(hours),
        cost={currency: _rounded(amount) for currency, amount in sorted(cost.items())},
        unpriced_gpu_hours=_rounded(unpriced) if unpriced else "",
        running=running,
    )


def _rounded(amount: Decimal) -> str:
    return format(amount.quantize(CENTS), "f")


def cards_of(one: Recorded, world: World) -> Iterator[CardRow]:
    """By the slots of its node as that was recorded: under a claim these do not change."""
    node = NODES.last(world, one.node)
    seen = world.observations.get(one.node)
    facts = seen.facts if seen else None
    told: dict[str, GpuFact] = {gpu.uuid: gpu for gpu in (facts.gpus if facts else None) or ()}
    for slot in node.slots if node else ():
        if slot.name not in one.slots:
            continue
        gpu = told.get(slot.gpu.uuid)
        yield CardRow(
            ref=str(one.ref),
            node=one.node,
            slot=slot.name,
            uuid=slot.gpu.uuid,
            model=slot.gpu.model,
            percent=gpu.utilization if gpu else None,
            memory_used_mib=gpu.memory_used_mib if gpu else None,
            memory_mib=gpu.memory_mib if gpu else None,
            at=seen.at if seen and facts else "",
        )


def facts_of(
    total: Used | None, price: str, cards: Iterable[CardRow], now: datetime
) -> Mapping[str, str]:
    """The lines that `show` tells of them."""
    found: dict[str, str] = {}
    if price:
        found["price"] = price
    if total is not None:
        paid = [f"{amount} {currency}" for currency, amount in total.cost.items()]
        free = total.unpriced_gpu_hours
        paid += [f"{free} GPU-hours without a price"] if free else []
        words = f"{total.gpu_hours} GPU-hours since {total.since}"
        found["used"] = " · ".join([words, *paid, *([] if total.running else ["ended"])])
    rows = tuple(cards)
    if rows:
        found["cards"] = " · ".join(f"{row.slot} {busy(row)}" for row in rows) + _age(rows[0], now)
    return found


def busy(row: CardRow) -> str:
    """`83 %, 41200 of 81559 MiB`, as far as it is known."""
    percent = UNKNOWN if row.percent is None else f"{row.percent} %"
    return f"{percent}, {memory(row)} MiB"


def memory(row: CardRow) -> str:
    amounts = (row.memory_used_mib, row.memory_mib)
    return " of ".join(UNKNOWN if one is None else str(one) for one in amounts)


def _age(row: CardRow, now: datetime) -> str:
    moment = parse_moment(row.at)
    return f" ({format_age((now - moment).total_seconds())} ago)" if moment else " (never told)"
