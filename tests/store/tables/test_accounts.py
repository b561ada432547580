"""Numbers of accounts: each uid and gid is given once, and what SQL is told cannot undo it."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from reconciler.model.plan.work import WaveIntent
from reconciler.model.problem import ProblemError
from tests.store.records import State, make_claim, make_recorded, make_step, ref

GIVE = "{verb} INTO posix_id (kind, number, owner, since) VALUES (?, ?, ?, 't')"


def hold(state: State, name: str, slot: str, *, uid: int, gid: int = 20000) -> None:
    claim = replace(make_claim(name, "gpu01", slot), uid=uid, gid=gid)
    state.journal.begin_wave(
        state.run(), WaveIntent(steps=(make_step(name, "gpu01"),), claims=(claim,))
    )


def test_world_knows_who_has_which_number(state: State) -> None:
    """ALC-02: uids belong to allocations, gids to projects, and both are read back."""
    hold(state, "a", "s0", uid=20000)
    hold(state, "b", "s1", uid=20001)
    counters = state.journal.world().counters
    assert counters.uids == {"id-a": 20000, "id-b": 20001}
    assert counters.gids == {"vision": 20000}
    assert (counters.last_uid, counters.last_gid) == (20001, 20000)


def test_a_number_is_given_to_nobody_else(state: State) -> None:
    hold(state, "a", "s0", uid=20000)
    with pytest.raises(ProblemError, match="given once"):
        hold(state, "b", "s1", uid=20000)
    assert len(state.claim_states()) == 1


def test_a_forgotten_project_leaves_its_gid_to_nobody(state: State) -> None:
    """Who takes a former project's name gets none of its files."""
    hold(state, "a", "s0", uid=20000)
    project = ref("project/vision")
    state.journal.record(state.run(), [replace(make_recorded("x"), ref=project, id="", login="")])
    state.journal.record(state.run(), forgotten=[project])
    counters = state.journal.world().counters
    assert counters.gids == {} and counters.last_gid == 20000


def test_a_renamed_project_keeps_its_gid(state: State) -> None:
    hold(state, "a", "s0", uid=20000)
    former = replace(make_recorded("x"), ref=ref("project/vision"), id="", login="")
    state.journal.record(state.run(), [former])
    state.journal.record(
        state.run(), renamed=[(former.ref, replace(former, ref=ref("project/sight")))]
    )
    assert state.journal.world().counters.gids == {"sight": 20000}


@pytest.mark.parametrize("verb", ["INSERT", "INSERT OR REPLACE", "REPLACE"])
def test_numbers_are_guarded_in_sql(state: State, verb: str) -> None:
    """Rule 15: neither a number nor an owner can be written over, changed or deleted."""
    hold(state, "a", "s0", uid=20000)
    raw = state.raw()
    for row in (("uid", 20000, "id-z"), ("uid", 20009, "id-a"), ("gid", 20000, "nlp")):
        with pytest.raises(sqlite3.IntegrityError, match="given once"):
            raw.execute(GIVE.format(verb=verb), row)
    for change in ("number = 20005", "owner = 'id-z'", "since = 'then'"):
        with pytest.raises(sqlite3.IntegrityError, match="keeps its owner"):
            raw.execute(f"UPDATE OR REPLACE posix_id SET {change} WHERE kind = 'uid'")
    with pytest.raises(sqlite3.IntegrityError, match="never deleted"):
        raw.execute("DELETE FROM posix_id")
    raw.close()
