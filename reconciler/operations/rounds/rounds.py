"""Rounds of the loop as data: what one did, and what the next one needs to know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

from reconciler.model.codec import encode
from reconciler.model.plan.plan import Change, Plan
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.operations.inventory.sync import left_of
from reconciler.operations.rounds.backoff import Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """What was tried in vain; it is tried again after so many seconds."""

    name: str
    code: str
    message: str
    retry_seconds: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What became of one round. `seconds` are those of each phase.

    `idle`: nothing had changed, so nothing was planned. `silent` are hosts that do not answer, as
    `node/NAME`. `postponed` are refs that failed before and whose time has not come. `recovered`
    are names that had failed and do so no more. `contested` was mended in vain in this round,
    `disputed` of late.
    """

    at: str
    commit: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    idle: bool = False
    observed: int = 0
    silent: tuple[str, ...] = ()
    plan: Plan | None = None
    run: str = ""
    done: tuple[Change, ...] = ()
    failed: tuple[Failed, ...] = ()
    postponed: tuple[str, ...] = ()
    recovered: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    disputed: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    interrupted: bool = False
    next_moment: str = ""

    @property
    def held(self) -> tuple[Change, ...]:
        """What is not done, each with its reason."""
        found = self.plan.changes if self.plan else ()
        return tuple(change for change in found if change.problem is not None)

    @property
    def left(self) -> Plan | None:
        """The plan without what was done by it."""
        return left_of(self.plan, self.done) if self.plan is not None and self.done else self.plan


@dataclass(slots=True, kw_only=True)
class Memory:
    """What a loop keeps between two rounds; a new one goes without. `clock` never goes back."""

    clock: Callable[[], float]
    chance: Callable[[], float]
    pace: Pace = field(default_factory=Pace)
    nodes: tuple[str, ...] = ()
    nodes_of: str = ""
    rest: str = ""
    """The key of the input of which a plan had nothing to do."""
    rest_until: str = ""
    last: Tick | None = None


class Phases:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


def summary(last: Tick) -> dict[str, object]:
    """What of a round others may want to know; small, however large the fleet."""
    codes: dict[str, int] = {}
    for change in last.held:
        if change.problem is not None:
            codes[change.problem.code] = codes.get(change.problem.code, 0) + 1
    return {
        "at": last.at,
        "commit": last.commit,
        "seconds": encode(last.seconds),
        "idle": last.idle,
        "observed": last.observed,
        "done": len(last.done),
        "failed": [encode(one) for one in last.failed[:MOST_TOLD]],
        "held": codes,
        "postponed": list(last.postponed[:MOST_TOLD]),
        "silent": list(last.silent[:MOST_TOLD]),
        "run": last.run,
    }


MOST_TOLD = 50
