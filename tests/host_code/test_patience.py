"""Something is asked at once, after each rest, and a last time when the time is over."""

from __future__ import annotations

import pytest
from gpuaas import patience
from gpuaas.patience import comes_true


@pytest.mark.parametrize(
    ("true_at", "answer", "slept"),
    [(100.0, True, 0), (101.0, True, 1), (103.0, True, 3), (104.0, False, 3)],
)
def test_it_is_asked_until_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, true_at: float, answer: bool, slept: int
) -> None:
    now, rests = [100.0], list[float]()

    class Clock:
        monotonic = staticmethod(lambda: now[0])

        @staticmethod
        def sleep(seconds: float) -> None:
            rests.append(seconds)
            now[0] += seconds

    monkeypatch.setattr(patience, "time", Clock)
    assert comes_true(lambda: now[0] >= true_at, 2.5, 1.0) is answer
    assert rests == [1.0] * slept
