"""Ends, written: what is shut off is neither billed nor free; what has lapsed comes no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Cause, Change, Order
from reconciler.model.plan.work import WaveIntent
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.model.state.world import Recorded
from reconciler.store import queries
from reconciler.store.snapshot import read_world
from reconciler.store.tables import queue
from tests.store.records import State, done, make_claim, make_recorded, make_step, plan, ref

A = ref("allocation/vision/a")


def shutting(state: State, **changes: Any) -> str:
    """The release of `a` has begun that can be taken back for an hour."""
    values = {"ref": A, "action": Action.RELEASE, "allocation_id": "id-a", "undo_minutes": 60}
    run = state.journal.begin_run(plan(changes=(Change(**values | changes),)))
    state.journal.begin_wave(run, WaveIntent(steps=(make_step("a", order=Order.RETIRE),)))
    return run


def uses(state: State) -> list[tuple[str, bool]]:
    rows = state.rows("SELECT allocation_id, ended <> '' FROM usage_record ORDER BY started")
    return [(id, bool(ended)) for id, ended in rows]


@pytest.fixture
def held(state: State) -> State:
    change = Change(ref=A, action=Action.CREATE, gpus=1, rate_per_hour={"EUR": "2.10"})
    state.journal.begin_run(plan(changes=(change,)))
    state.hold("a")
    return state


def test_its_claim_stays_and_its_bill_ends(held: State) -> None:
    """Rule 12: from the intent on, whatever its host does about it."""
    assert uses(held) == [("id-a", False)]
    shutting(held)
    one = read_world(held.database).recorded[A]
    assert (one.phase, one.basis) == (Phase.QUARANTINED, ""), "until its host has shown it"
    assert "2026-11-01T13:00" in one.undo_until
    assert held.claim_states() == {"claim-a": "held"}
    assert uses(held) == [("id-a", True)]
    told = [e for e in queries.events(held.database, str(A)) if e.type is EventType.RECORDED][-1]
    assert (told.before or {})["phase"] == "active"
    assert (told.after or {}) == {"phase": "quarantined", "undo_until": one.undo_until}


def test_a_second_try_counts_no_further(held: State) -> None:
    shutting(held)
    first = read_world(held.database).recorded[A].undo_until
    shutting(held)
    assert read_world(held.database).recorded[A].undo_until == first


def test_what_comes_back_is_used_anew(held: State) -> None:
    """Two records of use, with nothing between them."""
    shutting(held)
    change = Change(ref=A, action=Action.RESTORE, gpus=1, rate_per_hour={"EUR": "2.10"})
    run = held.journal.begin_run(plan(changes=(change,)))
    held.journal.begin_wave(run, WaveIntent(steps=(make_step("a"),)))
    held.journal.finish_wave(run, done(make_step("a")), [make_recorded("a")])
    assert read_world(held.database).recorded[A].phase is Phase.ACTIVE
    assert uses(held) == [("id-a", True), ("id-a", False)]


def test_a_restore_that_was_broken_off_is_in_doubt(held: State) -> None:
    """Its keys may lie there again: if git lets it go once more, they are taken away once more."""
    run = shutting(held)
    shut = replace(make_recorded("a"), phase=Phase.QUARANTINED, basis="quarantined")
    held.journal.finish_wave(run, done(make_step("a", order=Order.RETIRE)), [shut])
    assert read_world(held.database).recorded[A].basis == "quarantined"
    change = Change(ref=A, action=Action.RESTORE)
    run = held.journal.begin_run(plan(changes=(change,)))
    held.journal.begin_wave(run, WaveIntent(steps=(make_step("a"),)))
    assert read_world(held.database).recorded[A].basis == ""


def released(state: State, cause: Cause | None) -> None:
    change = Change(ref=A, action=Action.RELEASE, allocation_id="id-a", cause=cause)
    run = state.release(run=state.journal.begin_run(plan(changes=(change,))))
    state.journal.finish_wave(run, done(proofs=(state.prove("a"),)), (), [A])


@pytest.mark.parametrize(
    ("cause", "lapsed"), [(Cause.EXPIRED, [A]), (Cause.CONSENTED, []), (None, [])]
)
def test_whose_time_was_over_is_known(held: State, cause: Cause | None, lapsed: list[Ref]) -> None:
    """An expired file never creates again; once nobody wants it, or it has a place, it may."""
    released(held, cause)
    assert list(read_world(held.database).lapsed) == lapsed
    held.journal.enter("stop_waiting", queue.leave, [A])
    assert not read_world(held.database).lapsed


def test_what_is_not_proved_gone_has_not_lapsed_yet(held: State) -> None:
    change = Change(ref=A, action=Action.RELEASE, allocation_id="id-a", cause=Cause.EXPIRED)
    run = held.release(run=held.journal.begin_run(plan(changes=(change,))))
    held.journal.finish_wave(run, done(), (), [A])
    world = read_world(held.database)
    assert (world.recorded[A].phase, dict(world.lapsed)) == (Phase.RELEASING, {})


def test_a_place_ends_the_lapse(held: State) -> None:
    released(held, Cause.EXPIRED)
    again = replace(make_claim("a"), id="claim-b", allocation_id="id-b")
    held.journal.begin_wave(held.run(), WaveIntent(steps=(make_step("a"),), claims=(again,)))
    assert not read_world(held.database).lapsed


@pytest.mark.parametrize(("state_of", "billed"), [("lost", False), ("draining", True)])
def test_nobody_pays_for_what_a_lost_host_holds(held: State, state_of: str, billed: bool) -> None:
    """Rule 11: its claims stay, its bill ends; and begins anew, at its price, when it is back."""
    held.journal.record("", [node_with(state_of)])
    assert uses(held) == [("id-a", not billed)]
    assert held.claim_states() == {"claim-a": "held"}
    held.journal.record("", [node_with("active")])
    prices = held.rows("SELECT price_per_gpu_hour, currency, gpus FROM usage_record")
    assert len(set(prices)) == 1
    assert uses(held)[-1] == ("id-a", False)


def node_with(admin: str) -> Recorded:
    name = "gpu01"
    normal = {"labels": {}, "spec": {"admin": {"state": admin}, "slots": []}}
    fields = {"normal": normal, "digest": admin, "id": "", "login": "", "node": "", "slots": ()}
    return make_recorded(name, ref=ref(f"node/{name}"), shape=None, **fields)
