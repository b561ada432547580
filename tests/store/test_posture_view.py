"""The posture of a node in SQL is that of the table in `model`, row by row."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from dataclasses import fields
from typing import Any

import pytest

from reconciler.model.host.posture import NodeTally, Posture, posture_of
from reconciler.model.state.world import Recorded, Suspension
from reconciler.store.tables import suspensions
from tests.store.records import State, make_observation, make_recorded, ref

SEEN: set[str] = set()


def node(admin: str, disabled: bool) -> Recorded:
    slots = [{"name": "s0"}, {"name": "s1", **({"disabled": {"reason": "x"}} if disabled else {})}]
    normal = {"labels": {}, "spec": {"admin": {"state": admin}, "slots": slots}}
    plain = {"normal": normal, "digest": admin, "id": "", "login": "", "node": "", "slots": ()}
    return make_recorded("gpu01", ref=ref("node/gpu01"), shape=None, **plain)


HOLDERS: dict[str, tuple[str, ...]] = {
    "nobody": (),
    "one": ("s0",),
    "two": ("s0", "s1"),
    "whole": ("",),
}
ENDS = ("held", "releasing", "cleanup_blocked")
ADMIN = ("active", "draining", "evacuating", "unavailable", "lost")


@pytest.mark.parametrize("holders", HOLDERS)
def test_each_row(state: State, holders: str) -> None:
    """PLC-08 … PLC-16: from claims, documents and answers alone; nothing is stored as a flag."""
    for slot in HOLDERS[holders]:
        state.hold(f"a{slot or 'll'}", slot=slot or None)
    for end in ENDS if HOLDERS[holders] else ("held",):
        advance(state, holders, end)
        for admin, answered, disabled in itertools.product(
            ("active", "draining", "evacuating", "unavailable", "lost"),
            (True, False),
            (True, False),
        ):
            state.journal.record("", [node(admin, disabled)])
            seen = make_observation() if answered else make_observation(facts=None, problem="gone")
            state.journal.observe([seen])
            found = seen_in_sql(state)
            tally = NodeTally(**{f.name: found[f.name] for f in fields(NodeTally)})
            assert found["posture"] == posture_of(tally), (admin, answered, holders, end)
            held = len(HOLDERS[holders]) if holders != "whole" else 2
            blocked = held if end == "cleanup_blocked" else 0
            free = 2 - held - (1 if disabled and held < 2 else 0)
            told = (tally.held, tally.blocked, tally.free, bool(tally.whole))
            assert told == (held - blocked, blocked, free, holders == "whole")
            assert bool(tally.answered) is answered
            SEEN.add(found["posture"])


def seen_in_sql(state: State) -> dict[str, Any]:
    """The one node's line."""
    with closing(state.raw()) as shell:
        shell.row_factory = sqlite3.Row
        return dict(shell.execute("SELECT * FROM projected_posture").fetchone())


def advance(state: State, holders: str, end: str) -> None:
    """Every claim on its way to its end, as the journal writes it."""
    names = [f"a{slot or 'll'}" for slot in HOLDERS[holders]]
    if end == "releasing":
        for name in names:
            state.release(name)
    if end == "cleanup_blocked":
        with closing(state.raw()) as shell:
            shell.execute("UPDATE claim SET state = 'cleanup_blocked', problem = 'x'")


def test_a_suspended_node_takes_nobody(state: State) -> None:
    state.journal.record("", [node("active", disabled=False)])
    state.journal.observe([make_observation()])
    one = Suspension(scope="node/gpu01", reason="smoke", actor="olga", since="", until="")
    state.journal.enter("suspend", suspensions.begin, one)
    assert seen_in_sql(state)["posture"] == Posture.DRAINING
    state.journal.enter("resume", suspensions.end, one, "cooled down")
    assert seen_in_sql(state)["posture"] == Posture.AVAILABLE


def test_each_posture_was_come_to() -> None:
    assert set(Posture) == SEEN
