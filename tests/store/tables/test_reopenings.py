"""Whose an allocation was, after its end; and the word that gives its files to another one."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from reconciler.model.plan.work import WaveIntent
from reconciler.model.problem import ProblemError
from reconciler.model.state.event import EventType
from reconciler.model.state.rebuilt import Rebuilt
from reconciler.model.state.reopening import Heir, Reopening
from reconciler.store import queries, rebuild
from reconciler.store.backup import maintenance
from reconciler.store.tables import reopenings
from reconciler.store.tables.people import NOBODY_KNOWS
from reconciler.store.tables.reopenings import formers
from tests.store.durable import (
    DATA,
    VOLUME,
    asking,
    attach,
    begin,
    detach,
    make_attachment,
    recorded,
)
from tests.store.records import State, done, make_claim, make_recorded, make_step, ref

OLD_UID, UID = 21_001, 21_002


def uid(name: str) -> int:
    return {"a": OLD_UID, "b": UID}[name]


def hold(state: State, name: str, slot: str) -> None:
    """An allocation with an account, active."""
    claim = replace(make_claim(name, slot=slot), uid=uid(name), gid=5000)
    step = make_step(name)
    run = state.run()
    state.journal.begin_wave(run, WaveIntent(steps=(step,), claims=(claim,)))
    state.journal.finish_wave(run, done(step), [make_recorded(name, slot=slot)])


def end(state: State, name: str, slot: str) -> None:
    run = state.release(name)
    proof = state.prove(name, slot=slot)
    gone = [ref(f"allocation/vision/{name}")]
    state.journal.finish_wave(run, done(make_step(name), proofs=(proof,)), (), gone)


@pytest.fixture
def left(state: State) -> State:
    """One has had the volume and is gone; the other one has it."""
    recorded(state)
    hold(state, "a", "s0")
    attach(state, make_attachment("a"))
    detach(state, make_attachment("a"))
    end(state, "a", "s0")
    hold(state, "b", "s1")
    attach(state, make_attachment("b"))
    return state


def reopening(state: State) -> Reopening:
    old, _ = formers(state.database.connection, VOLUME)
    heir = Heir(
        people=("ana",),
        allocation_id="id-b",
        ref=ref("allocation/vision/b"),
        login="b-k7q2",
        uid=UID,
        owner="ana",
    )
    return Reopening(storage=DATA, volume=VOLUME, node="gpu01", old=old, new=heir, to_others=False)


def test_whose_it_was_is_known_when_it_is_gone(left: State) -> None:
    """F-REAL-11: with its uid, and that it has ended; of nobody else's volume."""
    old, new = formers(left.database.connection, VOLUME)
    assert (old.allocation_id, old.uid, old.people, old.lives) == ("id-a", OLD_UID, ("ana",), False)
    assert old.until and old.ref == "allocation/vision/a"
    assert (new.allocation_id, new.uid, new.people, new.lives) == ("id-b", UID, ("ana",), True)
    assert formers(left.database.connection, "other") == ()


def test_one_that_waits_for_a_proof_lives(left: State) -> None:
    """F-REAL-11: its slot is not known to be free of it, though it has let go of the volume."""
    detach(left, make_attachment("b"))
    left.release("b")
    assert [one.lives for one in formers(left.database.connection, VOLUME)] == [False, True]


def test_each_who_ever_owned_it_stays(left: State) -> None:
    """F-REAL-11: written once each, and nothing takes it back."""
    spec = {"labels": {}, "spec": {"owner": "bo"}}
    for normal in (spec, spec, {"labels": {}, "spec": {"owner": "ana"}}):
        run = left.run()
        left.journal.record(run, [make_recorded("b", slot="s1", normal=normal)])
    assert formers(left.database.connection, VOLUME)[1].people == ("ana", "bo")


def test_a_lost_state_knows_of_none_before(state: State) -> None:
    """F-REAL-11 F-STA-02: others may have owned it; unknown is not nobody."""
    state.journal.enter(
        "rebuild", rebuild.write, Rebuilt(nodes=("gpu01",), recorded=(make_recorded("a"),))
    )
    assert state.rows("SELECT person FROM allocation_person") == [(NOBODY_KNOWS,), ("ana",)]


def test_the_word_is_kept_with_its_event(left: State) -> None:
    """F-REAL-11: who said it, why, and what a host has made of it."""
    one = reopening(left)
    left.journal.enter("reopen", reopenings.reopen, one, "her own")
    left.journal.enter("reopened", reopenings.reopened, one, 12, "1 a device: x")
    said = [e for e in queries.events(left.database, str(DATA)) if "reopen" in e.type.value]
    assert [e.type for e in said] == [EventType.REOPENING, EventType.REOPENED]
    assert said[0].reason == "her own" and said[0].after is not None
    assert (said[0].after["from"], said[0].after["to"]) == ("id-a", "id-b")
    assert said[1].after is not None
    assert (said[1].after["changed"], said[1].after["left"]) == (12, "1 a device: x")
    assert left.rows("SELECT from_uid, to_uid, reason FROM reopening") == [
        (OLD_UID, UID, "her own")
    ]
    assert maintenance.check(left.path) == ()


def test_sql_says_no_as_well(left: State) -> None:
    """F-REAL-11: of one that lives, to one that has not got it, and by no uid but theirs."""
    one = reopening(left)
    wrong = (
        replace(one, old=replace(one.old, uid=UID + 5)),
        replace(one, new=replace(one.new, uid=OLD_UID)),
        replace(one, old=replace(one.old, allocation_id="id-b", uid=UID)),
        replace(one, old=replace(one.old, allocation_id="nobody")),
        replace(one, new=replace(one.new, allocation_id="id-a", uid=OLD_UID)),
    )
    for each in wrong:
        with pytest.raises(ProblemError):
            left.journal.enter("reopen", reopenings.reopen, each, "x")
    with pytest.raises(ProblemError):
        left.journal.enter("reopen", reopenings.reopen, one, " ")
    detach(left, make_attachment("b"))
    with pytest.raises(ProblemError):
        left.journal.enter("reopen", reopenings.reopen, one, "x")
    assert left.rows("SELECT * FROM reopening") == []
    assert not [e for e in queries.events(left.database) if e.type is EventType.REOPENING]


def test_one_that_has_begun_to_be_attached_again_lives(state: State) -> None:
    """F-REAL-11: what a host was asked for may be there."""
    recorded(state)
    hold(state, "a", "s0")
    run, steps = begin(state, make_attachment("a"))
    assert formers(state.database.connection, VOLUME)[0].lives
    state.journal.finish_wave(run, done(*steps))
    step = asking("detach", make_attachment("a"))
    state.journal.begin_wave(state.run(), WaveIntent(steps=(step,)))
    assert formers(state.database.connection, VOLUME)[0].lives


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE allocation_person SET person = 'eve'", "never changes"),
        ("DELETE FROM allocation_person", "never deleted"),
        (
            "INSERT OR REPLACE INTO allocation_person VALUES ('id-a', 'ana', 'now')",
            "written once",
        ),
        ("UPDATE reopening SET to_id = 'id-c'", "never changes"),
        ("DELETE FROM reopening", "never deleted"),
        (
            "INSERT OR REPLACE INTO reopening SELECT * FROM reopening",
            "never written over",
        ),
        (
            "INSERT INTO reopening SELECT 1, volume, from_id, from_uid, to_id, to_uid, actor,"
            " reason, at FROM reopening",
            "with an event that says so",
        ),
    ],
)
def test_what_no_statement_changes(
    left: State, raw: sqlite3.Connection, statement: str, words: str
) -> None:
    """F-REAL-11: also on a connection that nobody has set up."""
    left.journal.enter("reopen", reopenings.reopen, reopening(left), "her own")
    raw.execute("PRAGMA foreign_keys = OFF")
    raw.execute("PRAGMA ignore_check_constraints = ON")
    with pytest.raises(sqlite3.IntegrityError, match=words):
        raw.execute(statement)


@pytest.mark.parametrize("renamed", [False, True])
def test_a_name_that_somebody_else_may_bear_by_now_is_nobodys(left: State, renamed: bool) -> None:
    """F-REAL-11: who comes under the name of a person who is gone has never written anything."""
    ana = replace(make_recorded("ana"), ref=ref("user/ana"), id="", login="", node="", slots=())
    left.journal.record(left.run(), [ana])
    if renamed:
        as_now = replace(ana, ref=ref("user/ana2"))
        left.journal.record(left.run(), renamed=[(ana.ref, as_now)])
    else:
        left.journal.record(left.run(), (), [ana.ref])
    known = formers(left.database.connection, VOLUME)
    (of_a,) = [one for one in known if one.allocation_id == "id-a"]
    assert set(of_a.people) == {"ana", NOBODY_KNOWS}
