"""The World as it was written, and as little of it decoded as is asked for."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.host.capacity import Shape
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.problem import ProblemError
from reconciler.model.state.world import World
from reconciler.store import queries
from reconciler.store.file.database import Database
from reconciler.store.rows import RecordedRows
from reconciler.store.snapshot import read_digests, read_world
from tests.store.records import STATE_ID, State, make_observation, make_recorded, ref

A = ref("allocation/vision/a")


def test_what_is_written_is_read(state: State) -> None:
    """STM-01 STM-02: recorded and observed come back as they went in, each on its own."""
    state.hold("a")
    state.journal.observe([make_observation()])
    world = read_world(state.database)
    recorded = world.recorded[A]
    assert encode(recorded) == encode(make_recorded("a")) | {"appliedAt": recorded.applied_at}
    assert recorded.facts["/etc/old"] is None
    assert recorded.shape is Shape.GPU_SLICE
    seen = make_observation()
    assert world.observations["gpu01"] == replace(seen, answered_at=seen.at)
    assert world.state_id == STATE_ID
    assert world.counters.logins == {"a-k7q2"}


def test_ends_are_kept(state: State) -> None:
    """STM-01: how long it lives, and how long it can come back, are read as they were written."""
    state.hold("a")
    ends = {"expires_at": "2026-12-11T12:00:00Z", "undo_until": "2026-12-11T13:00:00Z"}
    one = make_recorded("a", phase=Phase.QUARANTINED, **ends)
    state.journal.record(state.run(), [one])
    assert replace(read_world(state.database).recorded[A], applied_at="") == one


def test_rows_are_like_what_they_hold(state: State) -> None:
    """STM-01: what is decoded late is equal to what was written, whichever way it is compared."""
    state.hold("a")
    recorded, written = read_world(state.database).recorded[A], make_recorded("a")
    assert recorded.normal == written.normal
    assert written.facts == recorded.facts
    assert digest(recorded.normal) == recorded.digest
    assert replace(recorded, applied_at="") == written


def test_worlds_of_one_state_are_equal(state: State) -> None:
    """OBJ-15: same state, same World, whatever was decoded already."""
    state.hold("a")
    one, two = read_world(state.database), read_world(state.database)
    assert one.recorded[A]
    assert one == two
    assert "allocation/vision/a" not in one.recorded


def test_digests_without_decoding(state: State) -> None:
    """STM-01: what an unchanged plan needs is read from an index, and agrees with the rows."""
    state.hold("a")
    state.hold("b", slot="s1")
    recorded = read_world(state.database).recorded
    assert isinstance(recorded, RecordedRows)
    expected = {one: (row.digest, row.basis) for one, row in recorded.items()}
    assert recorded.digests() == expected == read_digests(state.database)
    (row,) = state.rows(
        "EXPLAIN QUERY PLAN SELECT kind, project, name, digest, basis FROM resource"
    )
    assert "COVERING INDEX" in row[3]


def test_one_moment(state: State) -> None:
    """STM-03: a World is of one moment, however long it is read and whoever writes meanwhile."""
    state.hold("a")
    with Database.open(state.path, write=False) as reader, reader.snapshot() as connection:
        count = "SELECT count(*) FROM claim"
        assert connection.execute(count).fetchone() == (1,)
        state.hold("b", slot="s1")
        assert connection.execute(count).fetchone() == (1,)


class TestProjection:
    """Projected state is shown, and nothing is decided by it."""

    def test_rows(self, state: State) -> None:
        """STM-04: allocations, slots and nodes are built from the four truths."""
        node = {"labels": {}, "spec": {"slots": [{"name": "s0"}, {"name": "s1"}]}}
        state.journal.record(
            state.run(),
            [make_recorded("gpu01", ref=ref("node/gpu01"), id="", login="", normal=node)],
        )
        state.hold("a")
        state.journal.observe([make_observation()])
        (allocation,) = queries.projected(state.database, "allocation")
        assert (allocation["recorded_phase"], allocation["live_claims"]) == ("active", 1)
        assert (allocation["last_verb"], allocation["last_step_state"]) == (
            "allocation.provide",
            "done",
        )
        slots = queries.projected(state.database, "slot")
        assert [(row["slot"], row["claim"]) for row in slots] == [("s0", "claim-a"), ("s1", None)]
        (one,) = queries.projected(state.database, "node")
        assert (one["slots"], one["slots_claimed"], one["claimed_whole"]) == (2, 1, 0)

    @pytest.mark.parametrize("lie", ["", "CREATE VIEW {view} AS SELECT 'nobody' AS ref, 0 AS live"])
    def test_is_no_source(self, state: State, raw: sqlite3.Connection, lie: str) -> None:
        """OBJ-15 STM-04 STM-05: views that are gone or lie leave the World as it is."""
        state.hold("a")
        before = read_world(state.database)
        for view in ("projected_allocation", "projected_slot", "projected_node"):
            raw.execute(f"DROP VIEW {view}")
            if lie:
                raw.execute(lie.format(view=view))
        assert read_world(state.database) == before
        with Database.open(state.path, write=True) as database:
            assert read_world(database) == before

    def test_is_rebuildable(self, state: State, raw: sqlite3.Connection) -> None:
        """STM-04: dropped and made again, it shows the same."""
        state.hold("a")
        before = queries.projected(state.database, "allocation")
        (made,) = raw.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'projected_allocation'"
        ).fetchone()
        raw.execute("DROP VIEW projected_allocation")
        raw.execute(made)
        assert queries.projected(state.database, "allocation") == before


def test_nonsense_is_damage(state: State, raw: sqlite3.Connection) -> None:
    """F-STA-03: a row that cannot be what was written is refused, when it is looked at."""
    state.hold("a")
    state.hold("b", slot="s1")
    raw.execute("""UPDATE resource SET normal = '{"labels":{},"spec":{}}' WHERE name = 'b'""")
    world = read_world(state.database)
    assert world.recorded[A].normal["spec"]
    with pytest.raises(ProblemError) as caught:
        assert world.recorded[ref("allocation/vision/b")].normal["spec"]
    assert caught.value.problems[0].code == "state_damaged"


def test_an_empty_state_is_empty(state: State) -> None:
    """F-STA-02: a state just made knows nothing, and says when it was made."""
    assert read_world(state.database) == World(state_id=STATE_ID, serial=1, recorded={})
