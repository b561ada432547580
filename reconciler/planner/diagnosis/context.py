"""The context of a diagnosis: all that it is made from, at one moment."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime, timedelta

from reconciler.model.moment import format_age, parse_moment
from reconciler.model.plan.lifecycle import RunState
from reconciler.model.records import dataclass
from reconciler.model.state.lock import LockHolder
from reconciler.model.state.world import World
from reconciler.planner.placement.inventory import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNow:
    """The last run; `moved` is when it last reported anything, `living` whether it still runs."""

    id: str
    state: RunState
    moved: str
    problem: str = ""
    living: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """All that a diagnosis is made from.

    `stopped` is who holds the lock and stands still, as by Ctrl-Z. `worded` are the moments of
    which it was said how long ago or ahead they are, for whoever keeps what was said.
    """

    world: World
    offers: tuple[Offer, ...]
    now: datetime
    run: RunNow | None = None
    stopped: LockHolder | None = None
    worded: list[datetime] = field(default_factory=list)

    def age(self, at: str) -> timedelta | None:
        moment = parse_moment(at)
        return None if moment is None else self.now - moment

    def for_(self, at: str) -> str:
        """How long, in words."""
        return self._worded(at, 1)

    def until(self, at: str) -> str:
        """How long it is until then, in words."""
        return self._worded(at, -1)

    def is_over(self, at: str) -> bool:
        age = self.age(at)
        return age is not None and age >= timedelta(0)

    def _worded(self, at: str, sign: int) -> str:
        moment = parse_moment(at)
        if moment is None:
            return "unknown"
        self.worded.append(moment)
        return format_age(sign * (self.now - moment).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a rule has found, before its row says what sort of thing that is.

    `code` stands where the rule knows better than its row.
    """

    about: str
    text: str
    since: str = ""
    command: str = ""
    code: str = ""
