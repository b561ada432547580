"""Failures of nodes as waves end, and claims that a host refused: let go by a proof, or kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from reconciler.model.host.evidence import CheckResult
from reconciler.model.plan.work import StepOutcome, WaveIntent, WaveOutcome
from reconciler.model.problem import Problem
from tests.store.records import (
    State,
    done,
    make_claim,
    make_observation,
    make_recorded,
    make_step,
    ref,
)

NODE = ref("node/gpu01")


def refused(
    state: State, name: str = "a", code: str = "path_unsafe", *, proof: CheckResult | None = None
) -> None:
    """A run in which a host refuses an allocation."""
    run, step = state.run(), make_step(name)
    state.journal.begin_wave(run, WaveIntent(steps=(step,), claims=(make_claim(name),)))
    problem = Problem(code=code, message=f"{name}: no")
    outcome = StepOutcome(step=step, ok=False, changed=False, problem=problem)
    proofs = (state.prove(name, result=proof),) if proof else ()
    untouched = {f"id-{name}": step.ref} if proof else {}
    state.journal.finish_wave(
        run,
        WaveOutcome(
            steps=(outcome,),
            observations=(make_observation(),),
            proofs=proofs,
            untouched=untouched,
        ),
    )


def counted(state: State) -> dict[str, int]:
    return {name: one.count for name, one in state.journal.world().failures.items()}


def test_each_refusal_counts_and_time_takes_half_of_it(state: State) -> None:
    """F-REAL-09: what counts is written as it is then, so that none of it comes back."""
    for name in "abcd":
        refused(state, name, proof=CheckResult.PASS)
    assert counted(state) == {"gpu01": 4}
    state.now += timedelta(hours=2)
    refused(state, "e", proof=CheckResult.PASS)
    assert counted(state) == {"gpu01": 2}
    one = state.journal.world().failures["gpu01"]
    assert (one.code, one.message, one.ref) == ("path_unsafe", "e: no", make_step("e").ref)
    told = state.rows("SELECT count(*) FROM event WHERE type = 'node_failed'")
    assert told == [(5,)]


@pytest.mark.parametrize("code", ["interrupted", "host_unreachable", "host_busy"])
def test_what_says_nothing_of_the_host_does_not_count(state: State, code: str) -> None:
    """F-REAL-09: nobody is asked last because somebody pressed Ctrl-C."""
    refused(state, code=code)
    assert counted(state) == {}


@pytest.mark.parametrize(
    ("code", "changed", "unknown", "times"),
    [
        ("host_unreachable", False, True, 1),
        ("host_busy", True, False, 1),
        ("host_busy", False, False, 0),
        ("interrupted", True, True, 0),
    ],
)
def test_a_preparation_that_breaks_off_counts_whatever_ended_it(
    state: State, code: str, changed: bool, unknown: bool, times: int
) -> None:
    """No other host is prepared for its sake, so the next apply has to know which one it was."""
    run, step = state.run(), replace(make_step("gpu01"), verb="node.prepare", ref=NODE)
    state.journal.begin_wave(run, WaveIntent(steps=(step,)))
    problem = Problem(code=code, message="no")
    told = StepOutcome(step=step, ok=False, changed=changed, unknown=unknown, problem=problem)
    state.journal.finish_wave(run, WaveOutcome(steps=(told,)))
    assert counted(state) == ({"gpu01": times} if times else {})


def test_a_success_clears_it_and_so_does_somebodys_word(state: State) -> None:
    """F-REAL-09: with an event that says by what."""
    refused(state, proof=CheckResult.PASS)
    state.hold("b")
    assert counted(state) == {}
    reasons = [r for (r,) in state.rows("SELECT reason FROM event WHERE type = 'node_cleared'")]
    assert reasons == ["it has done what it was asked for"]


def test_another_document_of_the_node_clears_it(state: State) -> None:
    """F-REAL-09: and the same one, recorded again, does not."""
    node = make_recorded("x", ref=NODE, id="", login="", node="", slots=(), shape=None, digest="1")
    state.journal.record(state.run(), [node])
    refused(state, proof=CheckResult.PASS)
    state.journal.record(state.run(), [node])
    assert counted(state) == {"gpu01": 1}
    other = make_recorded("x", ref=NODE, id="", login="", node="", slots=(), shape=None, digest="2")
    state.journal.record(state.run(), [other])
    assert counted(state) == {}


def test_a_claim_that_was_refused_untouched_ends_by_its_proof_alone(state: State) -> None:
    """F-REAL-09: the guards stay as they are: released first, then freed by what passed."""
    refused(state, proof=CheckResult.PASS)
    assert state.claim_states() == {"claim-a": "freed"}
    refused(state, "b")
    assert state.claim_states() == {"claim-a": "freed", "claim-b": "held"}
    retry = make_step("b")
    run = state.run()
    state.journal.begin_wave(run, WaveIntent(steps=(retry,)))
    state.journal.finish_wave(run, done(retry), [make_recorded("b")])
    assert state.claim_states()["claim-b"] == "held"
