"""Doubts and counters of a state that was lost: they end only in the open, and never go back."""

from __future__ import annotations

import json
import sqlite3

import pytest

from reconciler.model.host.evidence import Check, CheckResult
from reconciler.model.plan.work import WaveIntent
from reconciler.model.state.rebuilt import EndedDoubt, JudgedDoubts
from reconciler.model.state.world import Doubt, DoubtKind
from reconciler.store.snapshot import read_world
from reconciler.store.tables import taints
from reconciler.store.tables import taints as taints_table
from tests.store.records import State, make_claim, make_step

CHECK = Check(name="paths", result=CheckResult.PASS, value="all known")


def doubt(kind: DoubtKind = DoubtKind.UNSEEN, reason: str = "no route") -> Doubt:
    return Doubt(node="gpu01", kind=kind, reason=reason, since="")


def told(state: State) -> list[tuple[str, str, str]]:
    world = read_world(state.database)
    return [(one.node, one.kind.value, one.reason) for one in world.doubts]


def test_a_doubt_begins_once_and_goes_on_with_its_last_reason(state: State) -> None:
    state.journal.enter(
        "judge_doubts",
        taints_table.judge,
        JudgedDoubts(kept=(doubt(), doubt(DoubtKind.UNPROVED, "a file"))),
    )
    (first, _) = read_world(state.database).doubts
    state.journal.enter(
        "judge_doubts", taints_table.judge, JudgedDoubts(kept=(doubt(reason="holds x"),))
    )
    assert told(state) == [("gpu01", "unproved", "a file"), ("gpu01", "unseen", "holds x")]
    assert read_world(state.database).doubts[0].since == first.since != ""
    began = state.rows("SELECT ref, after, reason FROM event WHERE type = 'doubted'")
    assert [(ref, json.loads(after)["kind"]) for ref, after, _ in began] == [
        ("node/gpu01", "unproved"),
        ("node/gpu01", "unseen"),
    ]


def test_it_ends_with_what_was_measured(state: State) -> None:
    """F-PLC-04: evidence, or somebody's word, stands in the chain of events."""
    state.journal.enter(
        "judge_doubts", taints_table.judge, JudgedDoubts(kept=(doubt(), doubt(DoubtKind.UNPROVED)))
    )
    over = EndedDoubt(node="gpu01", kind=DoubtKind.UNSEEN, checks=(CHECK,))
    state.journal.enter(
        "judge_doubts", taints_table.judge, JudgedDoubts(ended=(over,)), "given up: burnt"
    )
    assert told(state) == [("gpu01", "unproved", "no route")]
    ((after, reason),) = state.rows("SELECT after, reason FROM event WHERE type = 'doubt_ended'")
    assert json.loads(after)["checks"] == [
        {"name": "paths", "result": "pass", "value": "all known"}
    ]
    assert reason == "given up: burnt"


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM doubt",
        "UPDATE doubt SET node = 'gpu02'",
        "UPDATE doubt SET kind = 'unproved'",
        "UPDATE doubt SET reason = ' '",
        "INSERT INTO doubt VALUES ('gpu01', 'unsure', 'x', 't')",
        "DELETE FROM counter_floor",
        "UPDATE counter_floor SET number = number - 1",
        "INSERT OR REPLACE INTO counter_floor VALUES ('uid', 5)",
    ],
)
def test_the_guards_stand_in_sql(state: State, raw: sqlite3.Connection, sql: str) -> None:
    """REL-03: whatever the code above does, and whichever kind was ended before."""
    state.journal.enter("judge_doubts", taints_table.judge, JudgedDoubts(kept=(doubt(),)))
    other = EndedDoubt(node="gpu01", kind=DoubtKind.UNPROVED)
    state.journal.enter("judge_doubts", taints_table.judge, JudgedDoubts(ended=(other,)))
    with state.database.transaction("observe") as connection:
        taints.raise_floors(connection, {"uid": 21000})
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(sql)


def test_counters_go_on_above_their_floor(state: State) -> None:
    """Rules 15 and 21: and a new claim counts from there."""
    with state.database.transaction("observe") as connection:
        taints.raise_floors(connection, {"uid": 21000, "gid": 500, "incarnation": 7_000})
        taints.raise_floors(connection, {"uid": 20000, "incarnation": 8_000})
    counters = read_world(state.database).counters
    assert (counters.last_uid, counters.last_gid) == (21000, 500)
    claim = make_claim("a")
    assert counters.incarnation(claim.ref) == 8_000
    state.journal.begin_wave(state.run(), WaveIntent(steps=(make_step("a"),), claims=(claim,)))
    assert read_world(state.database).counters.incarnation(claim.ref) == 8_001
