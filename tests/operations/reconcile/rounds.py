"""Rounds on a clock of one's own, over hosts that are folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from reconciler.operations.fleet import Fleet
from reconciler.operations.reconcile.tick import Memory, Tick, tick
from reconciler.operations.signals import Interrupts
from tests.harness.yard import Yard


@dataclass
class Rounds:
    """A loop whose hours pass as a test likes; `seconds` is what `Memory.clock` tells."""

    yard: Yard
    now: datetime
    seconds: float = 1000.0
    memory: Memory = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Memory(clock=lambda: self.seconds, chance=lambda: 0.0)

    def __call__(self, after: float = 60.0) -> Tick:
        """A round, so many seconds after the last one."""
        self.now += timedelta(seconds=after)
        self.seconds += after
        return tick(self.fleet, self.memory, Interrupts(), lambda told: None)

    @property
    def fleet(self) -> Fleet:
        return replace(self.yard.fleet(), now=lambda: self.now)

    def restart(self) -> None:
        """As a loop that was killed begins: it remembers nothing."""
        self.memory = Memory(clock=lambda: self.seconds, chance=lambda: 0.0)


@contextmanager
def counting_writes(yard: Yard) -> Iterator[list[str]]:
    """The events that are written meanwhile, by type."""
    (before,) = yard.rows("SELECT max(sequence) FROM event")[0]
    found: list[str] = []
    yield found
    rows = yard.rows("SELECT type FROM event WHERE sequence > ?", before)
    found += [type_ for (type_,) in rows]
