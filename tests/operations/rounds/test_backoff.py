"""What failed waits, twice as long each time; nothing else waits for it (F-REC-10 … F-REC-12)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from reconciler.operations.rounds.backoff import (
    FIRST_SECONDS,
    FLIPS,
    JITTER,
    MOST_OF_NODES,
    MOST_SECONDS,
    Pace,
)

REF, NODE = "allocation/vision/train", "node/gpu01"


def never() -> float:
    return 0.0


def test_attempts_grow_apart_and_have_a_cap() -> None:
    """F-REC-10: ten minutes of something that can never succeed are a handful of attempts."""
    pace, now, at = Pace(), 0.0, []
    while now < 4 * MOST_SECONDS:
        if REF not in pace.waiting(now):
            at.append(now)
            pace.failed(REF, "card_broken", now, never)
        now += 1
    gaps = [later - earlier for earlier, later in pairwise(at)]
    assert gaps[0] == FIRST_SECONDS
    assert gaps == sorted(gaps)
    assert gaps[-1] == MOST_SECONDS
    assert sum(one < 600 for one in at) <= 6


def test_a_host_that_is_away_is_asked_more_often_than_what_needs_a_person() -> None:
    pace = Pace()
    for _ in range(20):
        pace.failed(NODE, "host_unreachable", 0.0, never)
        pace.failed(REF, "card_broken", 0.0, never)
    assert pace.waits[NODE].until == MOST_OF_NODES < pace.waits[REF].until == MOST_SECONDS


def test_what_failed_at_once_does_not_come_back_at_once() -> None:
    pace = Pace()
    until = {pace.failed(f"node/{n}", "x", 0.0, lambda n=n: n / 10).until for n in range(10)}  # type: ignore[misc]
    assert len(until) == 10
    assert max(until) <= FIRST_SECONDS * (1 + JITTER)


def test_only_what_failed_waits() -> None:
    pace = Pace()
    pace.failed(REF, "card_broken", 0.0, never)
    assert set(pace.waiting(1.0)) == {REF}
    assert not pace.waiting(FIRST_SECONDS)


@pytest.mark.parametrize("how", ["success", "commit"])
def test_a_success_or_a_new_commit_begins_anew(how: str) -> None:
    """F-REC-11: without either it is tried again all the same."""
    pace = Pace()
    pace.begin("one")
    for _ in range(5):
        pace.failed(REF, "card_broken", 0.0, never)
    if how == "success":
        known = pace.succeeded(REF)
        assert known is not None
        assert known.count == 5
    else:
        pace.begin("one")
        assert REF in pace.waits
        pace.begin("two")
    assert not pace.waiting(0.0)
    assert pace.failed(REF, "card_broken", 0.0, never).count == 1


def test_a_tug_of_war_is_noticed_and_slows_down() -> None:
    """F-REC-12: mended again and again, each time soon after, is somebody else's wish."""
    pace, now = Pace(), 0.0
    told = []
    for _ in range(FLIPS + 2):
        told.append(pace.repaired(REF, now, never))
        now += 60
    assert told == [False] * (FLIPS - 1) + [True] * 3
    assert pace.contested(now) == (REF,)
    assert pace.contested(now + 10_000) == ()
    assert REF in pace.waiting(now - 60)


def test_repairs_far_apart_are_no_war() -> None:
    pace = Pace()
    assert not any(pace.repaired(REF, now, never) for now in range(0, 100_000, 5_000))
    assert pace.contested(100_000) == ()
    assert len(pace.flips) == 1


def test_what_nobody_wants_any_more_is_forgotten() -> None:
    pace = Pace()
    pace.failed(REF, "x", 0.0, never)
    pace.failed(NODE, "x", 0.0, never)
    pace.keep([NODE])
    assert set(pace.waits) == {NODE}
