"""Which hosts a round asks: all in their time, never all at once, the silent ones apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reconciler.model.moment import format_moment
from reconciler.operations.reconcile.due import Rhythm, due

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
NAMES = tuple(f"gpu{number:02}" for number in range(50))
RHYTHM = Rhythm(observe_seconds=300, interval_seconds=60)


def ago(seconds: float, problem: str = "") -> tuple[str, str]:
    return format_moment(NOW - timedelta(seconds=seconds)), problem


def test_whoever_was_never_looked_at_is_looked_at_first_and_at_once() -> None:
    seen = {name: ago(1000) for name in NAMES[:40]}
    found = due(NAMES, seen, (), NOW, RHYTHM)
    assert set(NAMES[40:]) <= set(found.sound)
    assert len(found.sound) == 10 + RHYTHM.share(50) == 30


def test_what_was_looked_at_together_is_spread_out_and_each_has_its_turn() -> None:
    """A simulated hour: no round asks all, and no answer is older than it may be by much."""
    seen = {name: ago(400) for name in NAMES}
    now, most, oldest = NOW, 0, 0.0
    for _ in range(60):
        found = due(NAMES, seen, (), now, RHYTHM)
        most = max(most, len(found.sound))
        seen.update({name: (format_moment(now), "") for name in found.sound})
        now += timedelta(seconds=60)
        ages = [(now - datetime.fromisoformat(at)).total_seconds() for at, _ in seen.values()]
        oldest = max(oldest, *ages) if now - NOW > timedelta(minutes=10) else 0.0
    assert most <= 20
    assert oldest <= 300 + 60


def test_a_silent_host_keeps_nobody_waiting_and_waits_for_its_time() -> None:
    seen = {name: ago(10) for name in NAMES} | {"gpu03": ago(10, "host_unreachable")}
    assert due(NAMES, seen, (), NOW, RHYTHM).silent == ("gpu03",)
    assert due(NAMES, seen, ("gpu03",), NOW, RHYTHM).silent == ()
    assert due(NAMES, seen, (), NOW, RHYTHM).sound == ()


def test_an_answer_from_a_time_to_come_is_of_no_known_age() -> None:
    """F-REC-14: the clock was set back."""
    seen = {"gpu01": ago(-7200)}
    assert due(("gpu01",), seen, (), NOW, RHYTHM).sound == ("gpu01",)


def test_who_is_named_no_more_is_not_asked() -> None:
    assert due((), {"gpu01": ago(9999)}, (), NOW, RHYTHM).sound == ()
