"""The lifetime of a cached page: until when it stays true if nothing happens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from reconciler.model.condition import OF_AGE, Health, Sync
from reconciler.model.moment import next_age, parse_moment
from reconciler.model.state.world import World
from reconciler.operations.inventory.stock import SOON, Stock
from reconciler.operations.views import AllocationRow
from reconciler.planner.diagnosis.checks import SOON as ENDING
from reconciler.planner.diagnosis.context import Chart

AHEAD = (timedelta(0), ENDING, SOON)
"""So long before its end a lease is told of, and what follows from its end."""


def lasts_until(
    chart: Chart, stock: Stock, rows: Iterable[AllocationRow], *others: str
) -> datetime | None:
    """The next moment at which time alone changes anything of it; now where that is not known.

    `rows` are those of which it is shown for how long they stand so and how long they still have,
    `others` moments of whatever else.
    """
    now = chart.now
    if chart.world.failures or chart.stopped or (chart.run and chart.run.living):
        return now
    rows = tuple(rows)
    ends = (moment for row in rows if (moment := parse_moment(row.until)))
    told = [next_age(moment, now) for moment in (*chart.worded, *ends)]
    told += [max(moment + OF_AGE, next_age(moment, now)) for moment in _ages(rows)]
    known = (*told, *_turns(chart.world, stock), *_moments(others))
    return min((moment for moment in known if moment >= now), default=None)


def _ages(rows: Iterable[AllocationRow]) -> Iterator[datetime]:
    """The ages of what is not well, which are shown."""
    for row in rows:
        well = (row.sync == Sync.IN_SYNC, row.health == Health.HEALTHY)
        since = (row.sync_since, row.health_since)
        yield from _moments(text for text, is_well in zip(since, well, strict=True) if not is_well)


def _turns(world: World, stock: Stock) -> Iterator[datetime]:
    """At which something counts that did not before, or no longer does."""
    for offer in stock.offers:
        if offer.observation is not None:
            for at in _moments([offer.observation.at]):
                yield from (at, at + offer.evidence_limit)
        yield from _moments([offer.spec.admin.until or ""])
    yield from _moments(one.until for one in world.suspensions)
    for ref in world.refs_of("allocation"):
        one = world.recorded[ref]
        yield from (end - ahead for end in _moments([one.expires_at]) for ahead in AHEAD)
        yield from _moments([one.undo_until])
    yield from _moments(price.from_ for sku in stock.skus for price in sku.spec.prices)


def _moments(texts: Iterable[str]) -> Iterator[datetime]:
    return (moment for text in texts if (moment := parse_moment(text)))
