"""Due hosts: each round asks a share of them, the oldest answers first.

A host that is silent is asked apart from the others, as its pace says, and keeps nobody waiting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from reconciler.model.moment import parse_moment
from reconciler.model.records import dataclass

NEVER = timedelta(days=36500)
AHEAD = 2
"""So many times its even share a round asks at most: what was looked at together is spread out."""

Seen = Mapping[str, tuple[str, str]]
"""Node → when it was looked at last, and the code of why that told nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """`sound` are asked first; `silent` have not answered last time, and are asked at the end."""

    sound: tuple[str, ...]
    silent: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How old an answer may become, and how often a round comes round."""

    observe_seconds: int
    interval_seconds: int

    def share(self, nodes: int) -> int:
        """How many of so many nodes one round asks, so that each has its turn in time."""
        return -(-nodes * self.interval_seconds * AHEAD // self.observe_seconds)


def due(
    names: Iterable[str], seen: Seen, waiting: Collection[str], now: datetime, rhythm: Rhythm
) -> Due:
    """`waiting` are names of nodes whose time has not come yet."""
    wanted = sorted(set(names))
    ages = {name: _age(seen.get(name), now) for name in wanted}
    troubled = {name for name in wanted if seen.get(name, ("", ""))[1]}
    old = [
        name
        for name in sorted(wanted, key=lambda name: (-ages[name], name))
        if ages[name] >= timedelta(seconds=rhythm.observe_seconds) and name not in troubled
    ]
    unseen = [name for name in old if ages[name] >= NEVER]
    rest = [name for name in old if ages[name] < NEVER]
    return Due(
        sound=tuple(unseen + rest[: rhythm.share(len(wanted))]),
        silent=tuple(name for name in sorted(troubled) if name not in waiting),
    )


def _age(seen: tuple[str, str] | None, now: datetime) -> timedelta:
    """An answer from a time to come is of no known age: the clock was set back."""
    at = parse_moment(seen[0]) if seen else None
    return now - at if at is not None and at <= now else NEVER
