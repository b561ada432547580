"""Resources, read back: what is the matter with one, by the words that this version knows."""

from __future__ import annotations

import sqlite3

import pytest

from reconciler.model.state.world import RecordedProblem
from reconciler.store.snapshot import read_world
from tests.store.records import State, ref

A = ref("allocation/vision/a")


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("", RecordedProblem.NONE),
        ("forgotten", RecordedProblem.FORGOTTEN),
        ("cleanup_blocked", RecordedProblem.CLEANUP_BLOCKED),
        ("a word of another version", RecordedProblem.NONE),
    ],
)
def test_a_word_that_nobody_knows_keeps_nobody_from_reading(
    state: State, raw: sqlite3.Connection, word: str, problem: RecordedProblem
) -> None:
    """One row of another version hides no other: the fleet is shown all the same."""
    state.hold("a")
    raw.execute("UPDATE resource SET problem = ? WHERE ref = ?", (word, str(A)))
    one = read_world(state.database).recorded[A]
    assert (one.problem, one.forgotten) == (problem, word == "forgotten")
