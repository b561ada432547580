"""What a host last said stays known while it is silent; since when a place is blocked, too."""

from __future__ import annotations

from reconciler.model.host.evidence import CheckResult, NodeFacts
from reconciler.store.snapshot import read_world
from tests.store.records import State, done, make_observation, ref


def test_the_time_of_the_last_answer_outlives_silence(state: State) -> None:
    """F-REAL-14: unknown now is not the same as never heard."""
    early, late = "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"
    state.journal.observe([make_observation(at=early, facts=NodeFacts(source="host"))])
    for _ in range(2):
        state.journal.observe(
            [make_observation(at=late, facts=None, digest="", problem="host_unreachable")]
        )
    seen = read_world(state.database).observations["gpu01"]
    assert (seen.facts, seen.last_answer, seen.at) == (None, early, late)


def test_who_never_answered_has_no_last_answer(state: State) -> None:
    """F-REAL-14."""
    state.journal.observe([make_observation(facts=None, digest="", problem="host_unreachable")])
    assert read_world(state.database).observations["gpu01"].last_answer == ""


def test_a_place_is_blocked_since_its_first_failed_proof(state: State) -> None:
    """F-REAL-14: neither since somebody has had it, nor since the last time it was tried."""
    state.hold("a")
    (claim,) = read_world(state.database).claims
    assert claim.state_since == claim.since
    run = state.release("a")
    failed = state.prove("a", result=CheckResult.FAIL)
    state.journal.finish_wave(run, done(proofs=(failed,)), (), [ref("allocation/vision/a")])
    (first,) = read_world(state.database).claims
    assert first.blocked_since and first.state_since == first.blocked_since
    assert claim.since <= first.blocked_since
