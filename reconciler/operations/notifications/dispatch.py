"""Dispatch: hands the news of each round to all recipients.

What each of them knows is kept in the cache beside the state, so that a loop that begins anew
repeats nothing, and tells what is over since.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from reconciler.model.moment import format_moment
from reconciler.model.records import dataclass
from reconciler.model.settings import NotificationSettings
from reconciler.operations.fleet import Fleet
from reconciler.operations.notifications.channel import Channel
from reconciler.operations.notifications.delivery import Delivery
from reconciler.operations.notifications.message import Key
from reconciler.operations.notifications.news import News

SPACE, KEY = "loop", "notified"
END_SECONDS = 10.0
"""So long whoever is not reached is waited for at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryProgress:
    """How much one recipient was sent since the loop began."""

    name: str
    delivered: int
    failed: int
    dropped: int
    pending: int


@dataclass(slots=True, kw_only=True)
class Dispatch:
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    kept: Mapping[str, list[Key]] = field(default_factory=dict)

    def begin(self, fleet: Fleet) -> frozenset[Key]:
        """Read what recipients know of and have to see the end of."""
        self.kept = read_known(fleet)
        self.follow(fleet)
        return frozenset(key for name in self.deliveries for key in self.kept.get(name, ()))

    def follow(self, fleet: Fleet) -> None:
        """Follow the recipients that the settings name now."""
        stated = {one.name: one for one in fleet.settings.notifications}
        for name in [name for name in self.deliveries if name not in stated]:
            self.deliveries.pop(name).stop(0)
        for name, one in stated.items():
            if name in self.deliveries:
                self.deliveries[name].stated = one
            else:
                self.deliveries[name] = self._delivery(fleet, one)

    def take(self, fleet: Fleet, news: Iterable[News]) -> None:
        told, at = tuple(news), format_moment(fleet.now())
        if told:
            for one in self.deliveries.values():
                one.channel.take(told, one.stated, at)

    def keep(self, fleet: Fleet) -> None:
        """Write what recipients know, only where it has changed."""
        known = {name: one.channel.known() for name, one in self.deliveries.items()}
        if known != self.kept:
            self.kept = known
            with fleet.cache() as cache:
                cache.put_many(SPACE, {KEY: json.dumps(known)})

    def end(self, fleet: Fleet) -> None:
        """End all deliveries at the same time."""
        until = time.monotonic() + END_SECONDS
        for one in self.deliveries.values():
            one.channel.close()
        for one in self.deliveries.values():
            one.stop(max(0.0, until - time.monotonic()))
        self.keep(fleet)

    @property
    def degraded(self) -> str:
        return "; ".join(
            f"{name} is not told: {one.trouble}"
            for name, one in self.deliveries.items()
            if one.trouble
        )

    @property
    def told(self) -> tuple[DeliveryProgress, ...]:
        return tuple(
            DeliveryProgress(
                name=name,
                delivered=one.delivered,
                failed=one.failed,
                dropped=one.channel.dropped,
                pending=len(one.channel.pending),
            )
            for name, one in sorted(self.deliveries.items())
        )

    def _delivery(self, fleet: Fleet, stated: NotificationSettings) -> Delivery:
        made = Delivery(
            stated=stated,
            fleet=fleet.folder.name,
            folder=fleet.folder,
            channel=Channel(self.kept.get(stated.name, ())),
        )
        made.start()
        return made


def read_known(fleet: Fleet) -> Mapping[str, list[Key]]:
    with fleet.cache() as cache:
        row = cache.get_many(SPACE, [KEY]).get(KEY)
    try:
        return {name: [*_keys(keys)] for name, keys in json.loads(row or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _keys(rows: Iterable[Iterable[str]]) -> Iterator[Key]:
    for event, about, code in rows:
        yield str(event), str(about), str(code)
