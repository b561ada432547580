"""The next moment: what ends within this second is not lost to what ends later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reconciler.planner.core.next_moment import sooner

NOW = datetime(2026, 11, 29, 12, 0, 0, 400_000, tzinfo=UTC)


def test_what_is_less_than_a_second_ahead_stays() -> None:
    near, far = NOW + timedelta(milliseconds=100), NOW + timedelta(hours=1)
    first = sooner("", [near], NOW)
    assert first == "2026-11-29T12:00:00Z"
    assert sooner(first, [far, None], NOW) == first


def test_what_is_over_is_not_ahead() -> None:
    assert sooner("", [NOW, NOW - timedelta(days=1), None], NOW) == ""
