"""Something is asked at once, again after each rest, and a last time when the time is over."""

from __future__ import annotations

import pytest

from reconciler import tries
from reconciler.tries import tries as tries_of


class Clock:
    """It goes on by sleeping alone."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(tries, "time", clock)
    return clock


@pytest.mark.parametrize(("seconds", "number"), [(0.0, 1), (0.5, 2), (1.0, 2), (2.5, 4)])
def test_it_ends_with_the_time(clock: Clock, seconds: float, number: int) -> None:
    assert len(list(tries_of(seconds, rest=1.0))) == number
    assert clock.slept == [1.0] * (number - 1)


def test_nobody_rests_once_it_is_so(clock: Clock) -> None:
    for _ in tries_of(9.0, rest=1.0):
        if clock.now >= 102.0:
            break
    assert clock.slept == [1.0, 1.0]
