"""Words that let a drift be: kept whole, told as events, and gone with what they are about."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from reconciler.model.plan.drift import Acceptance
from reconciler.store.tables import acceptances
from tests.store.records import State, make_recorded, ref

A = ref("allocation/vision/a")
WORD = Acceptance(
    ref=A,
    key="/etc/a.env",
    owner="ana",
    reason="a trial",
    until="2026-12-01T00:00:00Z",
    shown="file 0644 sha256:x",
)


def given(state: State) -> tuple[Acceptance, ...]:
    return state.journal.world().accepted_drift


def test_a_word_is_kept_with_who_when_why_and_about_what(state: State) -> None:
    """STM-08, rule 10: and makes plans stale that did not know of it."""
    before = state.journal.world().serial
    state.journal.enter(
        "accept_drift", acceptances.accept, replace(WORD, owner="somebody who is not here")
    )
    (kept,) = given(state)
    assert kept == replace(WORD, since=kept.since)
    assert state.journal.world().serial > before
    state.journal.enter(
        "accept_drift", acceptances.accept, replace(WORD, shown=None, reason="still")
    )
    (newer,) = given(state)
    assert (newer.shown, newer.reason) == (None, "still")


def test_a_word_that_is_taken_back_is_gone_and_told(state: State) -> None:
    state.journal.enter("accept_drift", acceptances.accept, WORD)
    (kept,) = given(state)
    state.journal.enter("retract_drift", acceptances.retract, kept, "over")
    assert given(state) == ()
    told = "SELECT type, ref, reason FROM event WHERE type LIKE 'drift%' ORDER BY sequence"
    assert state.database.connection.execute(told).fetchall() == [
        ("drift_accepted", str(A), "a trial"),
        ("drift_retracted", str(A), "over"),
    ]


def test_a_word_follows_a_rename_and_outlives_nothing(state: State) -> None:
    one = make_recorded("a")
    state.journal.record(state.run(), [one])
    state.journal.enter("accept_drift", acceptances.accept, WORD)
    other = ref("allocation/vision/b")
    state.journal.record(state.run(), renamed=[(A, replace(one, ref=other))])
    assert [word.ref for word in given(state)] == [other]
    state.journal.record(state.run(), forgotten=[other])
    assert given(state) == ()


def test_what_is_projected_is_made_from_the_rest_and_nothing_else(
    state: State, raw: sqlite3.Connection
) -> None:
    """STM-04: every view, dropped and made again, says the same."""
    state.hold("a")
    state.hold("b", slot="s1")
    views = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'").fetchall()
    before = {name: raw.execute(f"SELECT * FROM {name}").fetchall() for name, _ in views}
    assert any(before.values())
    for name, _ in views:
        raw.execute(f"DROP VIEW {name}")
    for _, made in views:
        raw.execute(made)
    assert {name: raw.execute(f"SELECT * FROM {name}").fetchall() for name, _ in views} == before
