"""The journal: intent before work, an end only by proof, and an event for everything."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from reconciler.model.host.capacity import ClaimState
from reconciler.model.host.evidence import CheckResult
from reconciler.model.plan.lifecycle import Phase, RunState, StepState
from reconciler.model.plan.plan import Action, Change, Order
from reconciler.model.plan.work import StepOutcome, WaveIntent, WaveOutcome
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.spec.revision import Revision
from reconciler.model.state.event import Actor, EventType
from reconciler.store import queries
from reconciler.store.file.database import Database
from reconciler.store.journal import Journal
from reconciler.store.serial import read_serial
from reconciler.store.tables import queue
from tests.store.records import (
    START,
    STATE_ID,
    State,
    done,
    make_claim,
    make_observation,
    make_recorded,
    make_step,
    plan,
    ref,
)

A = ref("allocation/vision/a")


def types(state: State, about: str = "") -> list[EventType]:
    return [event.type for event in queries.events(state.database, about)]


def test_claims_are_durable_before_any_host_is_touched(state: State) -> None:
    """PLC-06 STM-03: after `begin_wave` another process finds the claim and the open step."""
    state.journal.begin_wave(
        state.run(), WaveIntent(steps=(make_step("a"),), claims=(make_claim("a"),))
    )
    with Database.open(state.path, write=False) as other:
        world = Journal(other, Actor(name="x"), state.clock).world()
    (claim,) = world.claims
    assert (claim.ref, claim.node, claim.slot, claim.state) == (A, "gpu01", "s0", ClaimState.HELD)
    assert [step.state for step in world.open_steps] == [StepState.OPEN]
    assert world.counters.incarnations == {A: 1}
    assert A not in world.recorded


def test_a_wave_is_all_or_nothing(state: State) -> None:
    """F-STA-05 PLC-05: one claim that is refused takes the whole intent back."""
    state.hold("a", slot="s0")
    before = list(queries.events(state.database))
    claims = [make_claim("b", slot="s1"), make_claim("c", slot="s0")]
    with pytest.raises(ProblemError) as caught:
        state.journal.begin_wave(
            state.run(), WaveIntent(steps=(make_step("b"), make_step("c")), claims=tuple(claims))
        )
    assert caught.value.problems[0].code == "state_guard"
    assert "live claim" in caught.value.problems[0].message
    assert state.claim_states() == {"claim-a": "held"}
    assert len(list(queries.events(state.database))) == len(before) + 1  # run_started
    assert state.journal.world().open_steps == ()


def test_release_keeps_the_claim_until_it_is_proved(state: State) -> None:
    """REL-03: held, releasing, freed; the proof is written with the end of the claim."""
    state.hold("a")
    run = state.release("a")
    world = state.journal.world()
    assert state.claim_states() == {"claim-a": "releasing"}
    assert world.recorded[A].phase is Phase.RELEASING
    state.journal.finish_wave(run, done(make_step("a", order=Order.RETIRE)), (), [A])
    assert state.claim_states() == {"claim-a": "releasing"}
    assert A in state.journal.world().recorded, "not proved gone, so it stays on the books"
    state.journal.finish_wave(run, done(proofs=(state.prove("a"),)), (), [A])
    world = state.journal.world()
    assert (world.claims, dict(world.recorded)) == ((), {})
    assert types(state, str(A))[-3:] == [
        EventType.PROVED,
        EventType.CLAIM_FREED,
        EventType.FORGOTTEN,
    ]
    (row,) = queries.proofs(state.database, str(A))
    assert row["passed"]
    assert row["freed"] == "claim-a"


@pytest.mark.parametrize("result", [CheckResult.FAIL, CheckResult.UNKNOWN])
def test_no_proof_blocks_and_can_be_tried_again(state: State, result: CheckResult) -> None:
    """REL-03 REL-04: unknown is not proved; the slot stays blocked, visibly, until it is."""
    state.hold("a")
    run = state.release("a")
    state.journal.finish_wave(run, done(proofs=(state.prove("a", result=result),)), (), [A])
    (claim,) = state.journal.world().claims
    assert claim.state is ClaimState.CLEANUP_BLOCKED
    assert claim.problem == f"home_gone {result.value}"
    assert state.journal.world().recorded[A].problem == "cleanup_blocked"
    again = state.release("a")
    assert state.claim_states() == {"claim-a": "releasing"}
    state.journal.finish_wave(again, done(proofs=(state.prove("a"),)), (), [A])
    assert state.claim_states() == {"claim-a": "freed"}
    assert len(queries.proofs(state.database, str(A))) == 2


def test_a_proof_frees_only_its_own_place(state: State) -> None:
    """REL-03: of two slots one is proved clean, the other is not."""
    one, two = make_claim("a", slot="s0"), make_claim("a", slot="s1")
    two = replace(two, id="claim-a2")
    run = state.run()
    state.journal.begin_wave(run, WaveIntent(steps=(make_step("a"),), claims=(one, two)))
    state.release("a")
    proofs = (state.prove("a", slot="s0"), state.prove("a", slot="s1", result=CheckResult.FAIL))
    state.journal.finish_wave(run, done(proofs=proofs))
    assert state.claim_states() == {"claim-a": "freed", "claim-a2": "cleanup_blocked"}


def test_a_replace_gives_up_the_old_allocation_only(state: State) -> None:
    """PLC-06 REL-03: the new claims of the same ref stay held while the old ones go."""
    state.hold("a", slot="s0")
    new = replace(make_claim("a", slot="s1"), id="claim-new", allocation_id="id-new")
    run = state.run()
    state.journal.begin_wave(run, WaveIntent(steps=(make_step("a"),), claims=(new,)))
    state.journal.finish_wave(
        run, done(make_step("a")), [make_recorded("a", id="id-new", login="a-n3wx")]
    )
    state.release("a", run=run)
    assert state.claim_states() == {"claim-a": "releasing", "claim-new": "held"}
    assert state.journal.world().recorded[A].phase is Phase.ACTIVE
    assert state.journal.world().counters.incarnations == {A: 2}
    begun = {claim.id: claim.lease_since for claim in state.journal.world().claims}
    first = next(one.since for one in state.journal.world().claims if one.id == "claim-a")
    assert begun == {"claim-a": "", "claim-new": first}, "and its lease goes on"


def test_one_failed_step_is_told_apart(state: State) -> None:
    """F-STA-04: two done, one failed with its reason; nothing of it is lost in the sum."""
    names = ["a", "b", "c"]
    steps = [make_step(name, node=f"gpu{name}") for name in names]
    run = state.run()
    state.journal.begin_wave(
        run,
        WaveIntent(steps=tuple(steps), claims=tuple(make_claim(n, node=f"gpu{n}") for n in names)),
    )
    problem = Problem(code="verb_failed", message="no space left on gpub")
    outcomes = [StepOutcome(step=step, ok=True, changed=True) for step in steps]
    outcomes[1] = replace(outcomes[1], ok=False, problem=problem, log="x" * 9000 + "last line")
    state.journal.finish_wave(
        run,
        WaveOutcome(steps=tuple(outcomes)),
        [make_recorded("a", node="gpua"), make_recorded("c", node="gpuc")],
    )
    state.journal.end_run(run, RunState.FAILED, [problem])
    assert {str(ref) for ref in state.journal.world().recorded} == {
        "allocation/vision/a",
        "allocation/vision/c",
    }
    (failed,) = queries.steps(state.database, "allocation/vision/b")
    assert (failed["state"], failed["problem"]) == ("failed", "verb_failed")
    assert failed["message"] == "no space left on gpub"
    assert failed["log"].endswith("last line")
    assert len(failed["log"]) < 5000
    (last,) = queries.runs(state.database, 1)
    assert (last.state, last.commit) == (RunState.FAILED, "3f9c2e1")
    assert "verb_failed: no space left on gpub" in last.problem
    assert "claim-b" in state.claim_states(), "the claim waits for the next try"


def test_a_crash_leaves_open_steps(state: State) -> None:
    """STM-03: they stay open until closed as unknown, and unknown until their host is observed."""
    run = state.run()
    state.journal.begin_wave(
        run, WaveIntent(steps=(make_step("a"), make_step("b", "gpu02")), claims=(make_claim("a"),))
    )
    state.journal.close_open_steps()
    world = state.journal.world()
    assert [step.state for step in world.open_steps] == [StepState.UNKNOWN] * 2
    (last,) = queries.runs(state.database, 1)
    assert last.state is RunState.INTERRUPTED
    early = make_observation("gpu01", at="2026-11-01T11:00:00Z")
    state.journal.observe([early, make_observation("gpu02", facts=None, problem="x")])
    assert len(state.journal.world().open_steps) == 2, "an older answer or none says nothing"
    state.journal.observe([make_observation("gpu01", at="2026-11-01T13:00:00Z")])
    assert [step.node for step in state.journal.world().open_steps] == ["gpu02"]
    state.journal.close_open_steps()
    assert types(state).count(EventType.RUN_ENDED) == 1


def test_a_plan_is_used_once(state: State) -> None:
    """F-PLC-01: the second use of a saved plan is refused, also by a guard in SQL."""
    run = state.run()
    state.journal.use_plan("sha256:f", run)
    assert queries.plan_used_at(state.database, "sha256:f")
    assert queries.plan_used_at(state.database, "sha256:g") == ""
    with pytest.raises(ProblemError) as caught:
        state.journal.use_plan("sha256:f", run)
    assert caught.value.problems[0].code == "plan_used"


def test_serial_moves_with_what_makes_plans_stale(state: State) -> None:
    """STM-01 STM-02: observations and runs leave the serial, records and claims move it."""
    assert read_serial(state.database) == (STATE_ID, 1)
    run = state.run()
    state.journal.observe([make_observation()])
    state.journal.enter("wait", queue.join, [A])
    assert read_serial(state.database) == (STATE_ID, 1)
    state.journal.record(run, [make_recorded("x", ref=ref("sku/s"), id="", login="", shape=None)])
    moved = read_serial(state.database)[1]
    assert moved > 1
    state.journal.begin_wave(run, WaveIntent(claims=(make_claim("a"),)))
    assert read_serial(state.database)[1] > moved


def test_recording_the_same_again_says_nothing(state: State) -> None:
    """STM-01: a repair that changes no record makes no plan stale."""
    state.hold("a")
    before = read_serial(state.database)
    state.journal.record(state.run(), [make_recorded("a")])
    assert read_serial(state.database) == before
    changed = make_recorded("a", digest="sha256:other", normal={"labels": {}, "spec": {}})
    state.journal.record(state.run(), [changed])
    assert read_serial(state.database) != before
    assert state.rows("SELECT generation FROM resource") == [(2,)]


def test_rename_touches_no_host_and_no_claim(state: State) -> None:
    """PLC-06: the claim, id and login go on under the new name; the old name starts anew."""
    state.hold("a")
    now = make_recorded("a", ref=ref("allocation/vision/b"))
    state.journal.record(state.run(), renamed=[(A, now)])
    world = state.journal.world()
    assert set(world.recorded) == {ref("allocation/vision/b")}
    (claim,) = world.claims
    assert (claim.id, claim.ref) == ("claim-a", ref("allocation/vision/b"))
    assert world.counters.incarnations[A] == 1
    assert world.counters.logins == {"a-k7q2"}


def test_waiting_is_in_order_of_first_sight(state: State) -> None:
    """PLC-05 (rule 17): seeing a ref again does not move it back, and a claim ends its wait."""
    b = ref("allocation/vision/b")
    state.journal.enter("wait", queue.join, [b])
    state.journal.enter("wait", queue.join, [A, b])
    waiting = state.journal.world().waiting
    assert waiting[b] < waiting[A]
    state.journal.begin_wave(state.run(), WaveIntent(claims=(make_claim("b"),)))
    assert set(state.journal.world().waiting) == {A}
    state.journal.enter("stop_waiting", queue.leave, [A])
    assert state.journal.world().waiting == {}


class TestObservation:
    def test_no_answer_is_unknown(self, state: State) -> None:
        """STM-02: without an answer there are no facts, and it is known since when."""
        state.journal.observe([make_observation()])
        lost = {"facts": None, "digest": "", "problem": "host_unreachable"}
        for minute in (1, 2):
            state.journal.observe([make_observation(at=f"2026-11-01T12:0{minute}:00Z", **lost)])
        seen = state.journal.world().observations["gpu01"]
        assert (seen.facts, seen.problem) == (None, "host_unreachable")
        assert (seen.at, seen.unreachable_since) == (
            "2026-11-01T12:02:00Z",
            "2026-11-01T12:01:00Z",
        )
        state.journal.observe([make_observation(at="2026-11-01T12:03:00Z")])
        assert state.journal.world().observations["gpu01"].unreachable_since == ""

    def test_only_news_is_an_event(self, state: State) -> None:
        """STM-02: asking every minute does not fill the record."""
        for minute in range(5):
            state.journal.observe([make_observation(at=f"2026-11-01T12:0{minute}:00Z")])
        assert types(state).count(EventType.OBSERVED) == 1
        state.journal.observe([make_observation(digest="sha256:o2")])
        assert types(state).count(EventType.OBSERVED) == 2


class TestUsage:
    def change(self, price: str, gpus: int) -> Change:
        return Change(
            ref=A, action=Action.CREATE, gpus=gpus, rate_per_hour={"EUR": price} if price else {}
        )

    def apply(self, state: State, change: Change) -> None:
        run = state.journal.begin_run(plan(changes=(change,)))
        state.journal.begin_wave(
            run, WaveIntent(steps=(make_step("a"),), claims=(make_claim("a"),))
        )
        state.journal.finish_wave(run, done(make_step("a")), [make_recorded("a")])

    def test_is_written_when_it_begins_and_ends(self, state: State) -> None:
        """OBJ-02 (rule 18): price and currency are those of the moment use began."""
        self.apply(state, self.change("8.40", 4))
        (record,) = queries.usage(state.database, str(A))
        assert (record["gpus"], record["price_per_gpu_hour"]) == (4, "2.1")
        assert (record["currency"], record["tenant"], record["ended"]) == ("EUR", "corp", "")
        state.release("a")
        (record,) = queries.usage(state.database, str(A))
        assert record["ended"] > record["started"]

    def test_is_at_the_whole_price_however_little_a_replace_changes_it(self, state: State) -> None:
        """OBJ-02 (rule 18): what is paid more or less is no price."""
        change = replace(self.change("8.40", 4), price_per_hour={"EUR": "-0.20"})
        self.apply(state, change)
        (record,) = queries.usage(state.database, str(A))
        assert record["price_per_gpu_hour"] == "2.1"

    def test_without_a_price_use_is_still_counted(self, state: State) -> None:
        """OBJ-02: use cannot be made up later, whatever it will cost."""
        self.apply(state, self.change("", 0))
        (record,) = queries.usage(state.database, str(A))
        assert (record["gpus"], record["price_per_gpu_hour"], record["currency"]) == (1, "", "")

    def test_a_change_of_a_running_allocation_begins_nothing(self, state: State) -> None:
        """OBJ-02: one allocation, one beginning."""
        self.apply(state, self.change("2.10", 1))
        state.journal.record(state.run(), [make_recorded("a", protect=True)])
        assert len(queries.usage(state.database, str(A))) == 1


def test_events_tell_who_what_and_why(state: State) -> None:
    """STM-01: an event names actor, run and commit, and what was before and after."""
    journal = Journal(state.database, Actor(name="root", user="ana"), state.clock)
    run = journal.begin_run(plan(revision=Revision(commit="abc1234")))
    journal.record(run, [make_recorded("x", ref=ref("sku/s"), id="", login="", shape=None)])
    event = next(queries.events(state.database, "sku/s"))
    assert (event.actor, event.run, event.commit) == ("ana (root)", run, "abc1234")
    assert event.before is None
    assert event.after is not None
    assert event.after["phase"] == "active"
    assert next(queries.events(state.database, after=event.sequence - 1)) == event
    assert queries.last_events(state.database, "sku/s", 1) == (event,)


def race(path: Path, name: str, shape: str, rounds: int, gate: Barrier, results: Path) -> None:
    with Database.open(path, write=True) as database:
        journal = Journal(database, Actor(name=name), lambda: START)
        won = []
        for number in range(rounds):
            slot = None if shape == "whole" else "s0"
            claim = replace(make_claim(name, f"gpu{number}", slot), id=f"{name}-{number}")
            gate.wait()
            try:
                journal.begin_wave("run-000001", WaveIntent(claims=(claim,)))
                won.append(str(number))
            except ProblemError as error:
                assert error.problems[0].code == "state_guard"
    results.write_text(" ".join(won))


@pytest.mark.parametrize("other", ["slice", "whole"])
def test_two_processes_and_one_place(state: State, tmp_path: Path, other: str) -> None:
    """F-PLC-01 PLC-07: fifty rounds, one free slot each; exactly one wins, whoever comes first."""
    state.run()
    context = multiprocessing.get_context("spawn")
    gate, rounds = context.Barrier(2), 50
    racers = [
        context.Process(target=race, args=(state.path, name, shape, rounds, gate, tmp_path / name))
        for name, shape in (("x", "slice"), ("y", other))
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
        assert racer.exitcode == 0
    x, y = (set((tmp_path / name).read_text().split()) for name in "xy")
    assert x | y == {str(number) for number in range(rounds)}
    assert not x & y
