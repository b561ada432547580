"""Revocations that wait for a host, as steps begin and end; and edges that are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.work import StepOutcome, WaveIntent, WaveOutcome
from reconciler.model.problem import ProblemError
from tests.store.records import State, done, make_recorded, make_step, ref

TRAIN = ref("allocation/vision/a")


def sync(*people: str, order: Order = Order.RETIRE) -> Step:
    return replace(make_step("a", order=order), id="sync-a", verb="access.sync", revokes=people)


def failed(step: Step, *, unknown: bool = False) -> WaveOutcome:
    outcome = StepOutcome(step=step, ok=False, changed=False, unknown=unknown)
    return WaveOutcome(steps=(outcome,))


def pending(state: State) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.node, one.people) for one in state.journal.world().revocations]


def attempt(state: State, step: Step, *, unknown: bool = False) -> str:
    """A run in which the host does not do it; its start."""
    run = state.run()
    state.journal.begin_wave(run, WaveIntent(steps=(step,)))
    state.journal.finish_wave(run, failed(step, unknown=unknown))
    ((started,),) = state.rows("SELECT started FROM step WHERE run = ?", run)
    return str(started)


@pytest.mark.parametrize("unknown", [False, True])
def test_it_waits_from_the_first_try_until_a_step_ends_well(state: State, unknown: bool) -> None:
    """F-GRT-02, ACC-10: who was cut off from is told until the host has shown that they are out."""
    state.hold()
    assert pending(state) == []
    first = attempt(state, sync("bo"), unknown=unknown)
    attempt(state, sync("bo", "cem/desk"), unknown=unknown)
    (told,) = state.journal.world().revocations
    assert (told.ref, told.node, told.people) == (TRAIN, "gpu01", ("bo", "cem/desk"))
    assert told.since == first

    run, step = state.run(), sync("bo", "cem/desk")
    state.journal.begin_wave(run, WaveIntent(steps=(step,)))
    assert pending(state) == [("gpu01", ("bo", "cem/desk"))], "begun is not done"
    state.journal.finish_wave(run, done(step), [make_recorded("a")])
    assert pending(state) == []


def test_a_try_that_takes_nothing_away_is_none(state: State) -> None:
    state.hold()
    attempt(state, sync())
    assert pending(state) == []


def test_after_a_good_end_an_older_failure_is_history(state: State) -> None:
    state.hold()
    attempt(state, sync("bo"))
    run, step = state.run(), sync("bo")
    state.journal.begin_wave(run, WaveIntent(steps=(step,)))
    state.journal.finish_wave(run, done(step), [make_recorded("a")])
    later = attempt(state, sync("dana"))
    (told,) = state.journal.world().revocations
    assert (told.people, told.since) == (("dana",), later)


def test_a_release_that_could_not_shut_the_door(state: State) -> None:
    """ACC-11: given up, and somebody may still be inside: told until the proof."""
    state.hold()
    run, step = state.run(), sync("ana", "bo")
    state.journal.begin_wave(run, WaveIntent(steps=(step,), releasing=(TRAIN,)))
    state.journal.finish_wave(run, failed(step, unknown=True))
    assert pending(state) == [("gpu01", ("ana", "bo"))]
    run = state.run()
    state.journal.begin_wave(run, WaveIntent(steps=(step,), releasing=(TRAIN,)))
    state.journal.finish_wave(run, done(step, proofs=(state.prove(),)), (), [TRAIN])
    assert pending(state) == []
    assert state.journal.world().recorded == {}


def test_another_name_keeps_it_and_an_end_ends_it(state: State) -> None:
    """F-GRT-02: who takes the name of one that is gone is not told of its people."""
    state.hold()
    attempt(state, sync("bo"))
    new = ref("allocation/vision/b")
    moved = make_recorded("a", ref=new, basis="")
    state.journal.record(state.run(), renamed=[(TRAIN, moved)])
    (told,) = state.journal.world().revocations
    assert (told.ref, told.people) == (new, ("bo",))

    run = state.run()
    state.journal.begin_wave(run, WaveIntent(releasing=(new,)))
    state.journal.finish_wave(run, done(proofs=(state.prove(),)), (), [new])
    assert state.rows("SELECT * FROM revocation") == []


def test_a_begun_release_is_not_taken_back(state: State) -> None:
    """ALC-01: the store refuses an edge that is none, whoever asks for it."""
    state.hold()
    run = state.release()
    with pytest.raises(ProblemError) as refused:
        state.journal.finish_wave(run, done(), [make_recorded("a")])
    (problem,) = refused.value.problems
    assert problem.code == "state_guard"
    assert "releasing and cannot be active" in problem.message
    assert state.journal.world().recorded[TRAIN].phase is Phase.RELEASING
    state.journal.finish_wave(run, done(), [make_recorded("a", id="id-next", login="a-next")])
    assert state.journal.world().recorded[TRAIN].phase is Phase.ACTIVE, "another incarnation may"
