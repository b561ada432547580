"""Consents and removals as they are written: used once, over in the end, and no more than a day."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.plan.approval import Consent
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Cause, Change, Order
from reconciler.model.plan.work import WaveIntent
from reconciler.store.tables import consents
from reconciler.store.tables import consents as consents_table
from tests.store.records import START, State, done, make_recorded, make_step, plan, ref

A = ref("allocation/vision/a")
PRINT = "sha256:1"


def given(name: str = "a", fingerprint: str = PRINT, hours: int = 24) -> Consent:
    return Consent(
        id=f"c-{name}",
        ref=ref(f"allocation/vision/{name}"),
        action="release",
        fingerprint=fingerprint,
        actor="",
        reason="meant",
        at="",
        expires_at=format_moment(START + timedelta(hours=hours)),
    )


def change(name: str = "a", action: Action = Action.RELEASE, **fields: object) -> Change:
    at = ref(f"allocation/vision/{name}")
    return replace(Change(ref=at, action=action, allocation_id=f"id-{name}"), **fields)  # type: ignore[arg-type]


def begin(state: State, *changes: Change, order: Order = Order.RETIRE) -> str:
    """A run of these, begun on their hosts and not ended."""
    run = state.journal.begin_run(plan(changes=changes))
    state.journal.begin_wave(
        run, WaveIntent(steps=tuple(make_step(one.ref.name, order=order) for one in changes))
    )
    return run


def unused(state: State) -> list[str]:
    return [one.fingerprint for one in state.journal.world().consents]


def removals(state: State) -> list[str]:
    return [one.ref.name for one in state.journal.world().removals]


def test_a_consent_is_an_event_and_counts_until_it_is_used(state: State) -> None:
    state.hold()
    state.journal.enter("approve", consents_table.give, [given(), given("b", "sha256:2")])
    (event,) = state.rows(
        "SELECT type, ref, actor, reason FROM event WHERE ref = ? AND reason <> ''", str(A)
    )
    assert event == ("approved", str(A), "ana", "meant")
    assert unused(state) == [PRINT, "sha256:2"]
    one = state.journal.world().consents[0]
    assert (one.ref, one.actor, one.reason, one.used_at) == (A, "ana", "meant", "")
    begin(state, change(consent=PRINT))
    assert unused(state) == ["sha256:2"]
    used = consents.read_all(state.database.connection)[0]
    assert used.used_at > used.at


def test_what_did_not_succeed_may_be_tried_again(state: State) -> None:
    """But for what goes: it has begun by then, and nobody is asked about it again."""
    state.hold()
    state.journal.enter("approve", consents_table.give, [given()])
    restart = change(action=Action.RESTART, consent=PRINT)
    run = begin(state, restart, order=Order.PROVIDE)
    assert unused(state) == [PRINT]
    state.journal.finish_wave(run, done(make_step("a")), [make_recorded("a")])
    assert unused(state) == []


def test_a_change_without_work_uses_its_consent_as_well(state: State) -> None:
    state.journal.enter("approve", consents_table.give, [given()])
    run = state.journal.begin_run(plan(changes=(change(action=Action.CHANGE, consent=PRINT),)))
    state.journal.record(run, [make_recorded("a")])
    assert unused(state) == []


def test_what_nobody_gave_leave_for_stays_as_it_was(state: State) -> None:
    state.hold()
    state.journal.enter("approve", consents_table.give, [given()])
    begin(state, change())
    assert unused(state) == [PRINT]


def test_a_month_after_its_end_only_the_event_is_left(state: State) -> None:
    state.journal.enter("approve", consents_table.give, [given()])
    state.now += timedelta(days=20)
    state.journal.enter("approve", consents_table.give, [given("b", hours=24 * 21)])
    assert len(consents.read_all(state.database.connection)) == 2
    state.now += timedelta(days=12)
    state.journal.enter("approve", consents_table.give, [given("c", hours=24 * 33)])
    kept = [one.ref.name for one in consents.read_all(state.database.connection)]
    assert kept == ["b", "c"]
    assert state.rows("SELECT count(*) FROM event WHERE type = 'approved'") == [(3,)]


def test_nobody_gives_leave_without_a_reason(state: State) -> None:
    with pytest.raises(Exception, match="CHECK"):
        state.journal.enter("approve", consents_table.give, [replace(given(), reason=" ")])
    with pytest.raises(Exception, match="CHECK"):
        state.journal.enter(
            "approve", consents_table.give, [replace(given(), expires_at="2026-01-01T00:00:00Z")]
        )
    assert unused(state) == []


def test_what_is_let_go_of_is_counted_once(state: State) -> None:
    for name in "ab":
        state.hold(name, slot="s0" if name == "a" else "s1")
    begin(state, change(), change("b"))
    begin(state, change())
    assert removals(state) == ["a", "b"]
    one = state.journal.world().removals[0]
    assert (one.ref, one.thing) == (A, "id-a")


@pytest.mark.parametrize(
    "fields",
    [
        {"cause": Cause.EXPIRED},
        {"cause": Cause.CONSENTED},
        {"consent": PRINT},
        {"action": Action.REPLACE},
    ],
)
def test_what_somebody_has_said_yes_to_is_not_counted(state: State, fields: object) -> None:
    state.hold()
    begin(state, replace(change(), **fields))  # type: ignore[arg-type]
    assert removals(state) == []


def test_a_removal_is_kept_for_a_day(state: State) -> None:
    """A plan reads what a day had, however many there have ever been."""
    for number in range(30):
        name, slot = f"a{number:02}", "s0"
        state.hold(name, node=f"gpu{number:02}", slot=slot)
        begin(state, change(name))
        state.now += timedelta(hours=2)
    assert len(removals(state)) <= 13
    (rows,) = state.rows("SELECT count(*) FROM removal")
    assert rows[0] == len(removals(state))


def test_what_can_come_back_counts_from_when_it_is_shut_off(state: State) -> None:
    state.hold()
    run = begin(state, change(undo_minutes=60))
    assert removals(state) == ["a"]
    resting = replace(make_recorded("a"), phase=Phase.QUARANTINED)
    state.journal.finish_wave(run, done(make_step("a", order=Order.RETIRE)), [resting])
    begin(state, change(cause=Cause.CONSENTED))
    assert removals(state) == ["a"]


def test_unused_consents_are_asked_for_by_an_index(raw: sqlite3.Connection) -> None:
    """Else each plan would read all that were ever given."""
    (step, *_) = raw.execute(f"EXPLAIN QUERY PLAN {consents.UNUSED}").fetchall()
    assert "USING" in step[3] and "consent_unused" in step[3], step
