"""Suspensions that are given back, while somebody else says another word of the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import WaveIntent
from reconciler.model.problem import ProblemError
from reconciler.model.state.world import Suspension
from reconciler.store import revocation
from reconciler.store.tables import suspensions
from tests.store.records import State, done, make_recorded, make_step


def test_a_word_that_is_newer_is_not_taken_back(state: State) -> None:
    """F-REAL-24: `suspend` waits for no lock, so it may come between a look and a `resume`."""
    said = Suspension(scope="user/bo", reason="lost a laptop", actor="olga", since="")
    state.journal.enter("suspend", suspensions.begin, said)
    (seen,) = state.journal.read(suspensions.read_suspensions)
    state.journal.enter("suspend", suspensions.begin, replace(said, reason="a theft"))
    with pytest.raises(ProblemError) as refused:
        state.journal.enter("resume", suspensions.end, seen, "found it")
    assert [problem.code for problem in refused.value.problems] == ["not_found"]
    (stands,) = state.journal.read(suspensions.read_suspensions)
    assert stands.reason == "a theft"
    state.journal.enter("resume", suspensions.end, stands, "it was given back")
    assert state.journal.read(suspensions.read_suspensions) == ()


BO = ("bo",)


def sync(*revokes: str) -> Step:
    return replace(make_step("a"), id="sync-a", verb="access.sync", revokes=revokes)


def pending(state: State) -> list[tuple[str, ...]]:
    return [tuple(json.loads(people)) for (people,) in state.rows("SELECT people FROM revocation")]


@pytest.mark.parametrize("ended", [False, True])
def test_what_is_shown_before_an_older_step_ends_nothing(state: State, ended: bool) -> None:
    """F-REAL-24: whoever was shut out beside a run is let in again by what it has begun since."""
    state.hold()
    run = state.run()
    state.journal.enter("begin_revocation", revocation.begin, [sync(*BO)], "")
    state.journal.begin_wave(run, WaveIntent(steps=(make_step("a"),)))
    if ended:
        state.journal.finish_wave(run, done(make_step("a")), [make_recorded("a")])
    state.journal.enter("finish_revocation", revocation.finish, (), done(sync(*BO)), [])
    assert pending(state) == [BO]


def test_what_nobody_else_has_touched_is_ended(state: State) -> None:
    """F-REAL-24"""
    state.hold()
    state.journal.enter("begin_revocation", revocation.begin, [sync(*BO)], "")
    pair = make_recorded("a"), make_recorded("a")
    assert state.journal.enter("finish_revocation", revocation.finish, (), done(sync(*BO)), [pair])
    assert pending(state) == []


def test_whom_a_step_that_knew_nothing_let_in_again_is_told_still(state: State) -> None:
    """F-REAL-24: recorded by a run that ends before it could carry the word there."""
    state.hold()
    run, began = state.run(), sync()
    state.journal.begin_wave(run, WaveIntent(steps=(began,)))
    state.journal.enter(
        "suspend",
        suspensions.begin,
        Suspension(scope="user/bo", reason="theft", actor="olga", since=""),
    )
    state.journal.enter("begin_revocation", revocation.begin, [sync(*BO)], "2020-01-01T00:00:00Z")
    state.journal.finish_wave(run, done(began), [make_recorded("a")])
    (told,) = state.journal.world().revocations
    assert told.people == BO
    state.journal.enter(
        "resume", suspensions.end, *state.journal.read(suspensions.read_suspensions), "it was found"
    )
    assert state.journal.world().revocations == (), "nobody is to be shut out any more"
