"""Keeping the state: what `check` finds, and what backup and restore promise."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model.host.evidence import CheckResult
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.problem import ProblemError
from reconciler.model.state.event import Actor, EventType
from reconciler.store import queries
from reconciler.store.backup import maintenance
from reconciler.store.backup.maintenance import Beyond, backup, check, check_copy, restore
from reconciler.store.file.connection import connect
from reconciler.store.file.database import Database
from reconciler.store.serial import read_serial
from reconciler.store.snapshot import read_world
from tests.store.records import START, STATE_ID, State, done, make_recorded, ref

ANA = Actor(name="ana")


def code(action: Callable[[], object]) -> str:
    with pytest.raises(ProblemError) as caught:
        action()
    return caught.value.problems[0].code


def findings(path: Path) -> str:
    return "\n".join(f"{problem.code} {problem.message}" for problem in check(path))


def test_a_sound_state(state: State) -> None:
    """F-STA-03: nothing is found where nothing is wrong, whatever has happened."""
    assert check(state.path) == ()
    state.hold("a", slot="s0")
    state.hold("b", slot="s1")
    run = state.release("a")
    a, b = ref("allocation/vision/a"), ref("allocation/vision/b")
    state.journal.finish_wave(run, done(proofs=(state.prove("a"),)), (), [a])
    failed = state.prove("b", slot="s1", result=CheckResult.FAIL)
    state.journal.finish_wave(state.release("b"), done(proofs=(failed,)), (), [b])
    moved = make_recorded("b", ref=ref("allocation/vision/c"), phase=Phase.RELEASING)
    state.journal.record(run, renamed=[(b, moved)])
    assert check(state.path) == ()


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("DROP TRIGGER claim_is_freed_by_proof", "trigger claim_is_freed_by_proof was dropped"),
        ("DROP INDEX claim_one_live_per_slot", "index claim_one_live_per_slot was dropped"),
        ("CREATE TABLE extra (a)", "table extra is none of ours"),
        ("DROP VIEW projected_slot", "view projected_slot was dropped"),
        (
            "DROP TRIGGER event_stays;"
            "CREATE TRIGGER event_stays BEFORE DELETE ON event BEGIN SELECT 1; END",
            "trigger event_stays was changed",
        ),
        ("ALTER TABLE claim ADD COLUMN colour TEXT", "table claim was changed"),
    ],
)
def test_a_changed_schema(state: State, raw: sqlite3.Connection, sql: str, found: str) -> None:
    """REL-03 PLC-06: a guard that was dropped or blunted is seen, since it cannot be refused."""
    raw.executescript(sql)
    assert findings(state.path) == f"state_damaged {found}"


@pytest.mark.parametrize(
    ("trigger", "sql", "found"),
    [
        ("event_is_final", "UPDATE event SET actor = 'eve' WHERE sequence = 3", "event 3 is not"),
        ("event_stays", "DELETE FROM event WHERE sequence = 3", "event 3 is missing"),
        ("event_is_final", "UPDATE event SET after = '{}' WHERE sequence = 4", "event 4 is not"),
    ],
)
def test_a_broken_chain(
    state: State, raw: sqlite3.Connection, trigger: str, sql: str, found: str
) -> None:
    """F-STA-03: who removes the guard, changes an event and puts the guard back, is seen."""
    state.hold("a")
    (made,) = raw.execute("SELECT sql FROM sqlite_master WHERE name = ?", (trigger,)).fetchone()
    raw.execute(f"DROP TRIGGER {trigger}")
    raw.execute(sql)
    raw.execute(made)
    assert f"chain_broken {found}" in findings(state.path)


@pytest.mark.parametrize(
    ("triggers", "sql", "found"),
    [
        (
            ["claim_is_freed_by_proof", "claim_is_freed_from_a_release"],
            "UPDATE claim SET state = 'freed', freed_at = 't'",
            "claim-a: a claim freed without proof or override",
        ),
        (
            ["resource_is_forgotten_by_event", "resource_holds_claims"],
            "DELETE FROM resource",
            "allocation/vision/a: recorded, never forgotten, and not there",
        ),
        (
            ["claim_node_is_empty", "claim_has_an_event"],
            "INSERT INTO claim (id, allocation_id, ref, node, shape, state, since, tenant, project,"
            " event) VALUES ('x', 'x', 'x', 'gpu01', 'baremetal', 'held', 't', '', '', 1)",
            "gpu01: claimed whole and by the slot at once",
        ),
    ],
)
def test_what_was_done_behind_the_guards(
    state: State, raw: sqlite3.Connection, triggers: list[str], sql: str, found: str
) -> None:
    """REL-03 PLC-07 F-STA-02: guards taken away for a moment leave traces that are found."""
    state.hold("a")
    made = [
        raw.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        for name in triggers
    ]
    for name in triggers:
        raw.execute(f"DROP TRIGGER {name}")
    raw.execute(sql)
    for statement in made:
        raw.execute(statement)
    assert f"state_damaged {found}" in findings(state.path)


class TestBackup:
    def test_is_whole_while_others_write(self, state: State, tmp_path: Path) -> None:
        """F-STA-11: one file, 0600, with what was committed, and nothing beside it."""
        state.hold("a")
        with state.database.transaction("observe") as connection:
            connection.execute("INSERT INTO waiting VALUES ('x/y', 't')")
            backup(state.path, tmp_path / "copy.db")
        copied = tmp_path / "copy.db"
        assert copied.stat().st_mode & 0o777 == 0o600
        assert [path.name for path in tmp_path.glob("copy*")] == ["copy.db"]
        with closing(sqlite3.connect(copied)) as connection:
            assert connection.execute("SELECT count(*) FROM claim").fetchone() == (1,)
            assert connection.execute("SELECT count(*) FROM waiting").fetchone() == (0,)

    def test_never_writes_over(self, state: State, tmp_path: Path) -> None:
        """F-STA-11: an existing file is somebody's only backup."""
        target = tmp_path / "precious.db"
        target.write_text("precious")
        assert code(lambda: backup(state.path, target)) == "backup_exists"
        assert target.read_text() == "precious"

    def test_of_nothing(self, state_path: Path, tmp_path: Path) -> None:
        """F-STA-02: without a state there is no backup of an empty one."""
        assert code(lambda: backup(state_path, tmp_path / "x.db")) == "state_missing"
        assert not (tmp_path / "x.db").exists()


class TestRestore:
    def copy(self, state: State, tmp_path: Path) -> Path:
        copied = tmp_path / "copy.db"
        backup(state.path, copied)
        return copied

    def test_brings_back_and_keeps(self, state: State, tmp_path: Path) -> None:
        """F-STA-11: the older state is back and says so, and the one before is kept whole."""
        state.hold("a", slot="s0")
        copied = self.copy(state, tmp_path)
        state.hold("b", slot="s1")
        before = read_serial(state.database)
        state.database.close()
        kept = restore(state.path, copied, actor=ANA, now=START)
        assert kept is not None
        with Database.open(state.path, write=False) as database:
            (last,) = queries.last_events(database, "", 1)
            assert last.type is EventType.STATE_RESTORED
            assert last.reason == "restored from copy.db"
            assert read_serial(database) != before
        with closing(sqlite3.connect(kept)) as connection:
            assert connection.execute("SELECT count(*) FROM claim").fetchone() == (2,)
        assert check(state.path) == ()
        again = restore(state.path, copied, actor=ANA, now=START)
        assert again not in (None, kept)

    def test_doubts_what_a_copy_cannot_know(self, state: State, tmp_path: Path) -> None:
        """F-STA-11, rules 15 and 21: no number of since is given again, no node taken for known."""
        state.hold("a", node="gpu01")
        copied = self.copy(state, tmp_path)
        beyond = Beyond(nodes=("gpu02",), first_uid=20000, first_gid=30000)
        restore(state.path, copied, actor=ANA, now=START, beyond=beyond)
        with Database.open(state.path, write=False) as database:
            world = read_world(database)
        assert [(one.node, one.kind.value) for one in world.doubts] == [
            (node, kind) for node in ("gpu01", "gpu02") for kind in ("unproved", "unseen")
        ]
        assert {one.reason for one in world.doubts} == {"restored from copy.db"}
        counters = world.counters
        assert (counters.last_uid, counters.last_gid) == (20999, 30999)
        assert counters.least_incarnation == int(START.timestamp())
        assert check(state.path) == ()

    @pytest.mark.parametrize("loss", ["missing", "damaged", "emptied"])
    def test_after_a_loss(self, state: State, tmp_path: Path, loss: str) -> None:
        """F-STA-02 F-STA-03: this is the way back, and the damaged file is kept for study."""
        state.hold("a")
        copied = self.copy(state, tmp_path)
        state.database.close()
        if loss == "missing":
            state.path.unlink()
        else:
            content = state.path.read_bytes()
            state.path.write_bytes(content[:5000] if loss == "damaged" else b"")
        left = state.path.read_bytes() if loss != "missing" else None
        kept = restore(state.path, copied, actor=ANA, now=START)
        assert (kept.read_bytes() if kept else None) == left
        with Database.open(state.path, write=True) as database:
            assert database.connection.execute("SELECT count(*) FROM claim").fetchone() == (1,)

    def test_a_log_goes_with_its_database(self, state: State, tmp_path: Path) -> None:
        """F-STA-03: what stands in the log alone is kept, and does not come back."""
        state.hold("a")
        copied = self.copy(state, tmp_path)
        state.hold("b", slot="s1")
        assert state.path.with_name("gpuaas.db-wal").stat().st_size > 0
        kept = restore(state.path, copied, actor=ANA, now=START)
        assert kept is not None and check_copy(kept) == ()
        assert not kept.with_name(kept.name + "-wal").exists()
        for path, claims in ((kept, 2), (state.path, 1)):
            with closing(connect(path, write=False)) as connection:
                assert connection.execute("SELECT count(*) FROM claim").fetchone() == (claims,)

    def test_is_one_change_for_whoever_reads(
        self, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """F-STA-08, F-STA-11: who has it open sees what was, then what is; nobody is shut out."""
        state.hold("a")
        copied = self.copy(state, tmp_path)
        state.hold("b", slot="s1")
        seen = []

        def look(stop: str) -> None:
            with Database.open(state.path, write=False) as database:
                seen.append((stop, len(read_world(database).claims)))

        monkeypatch.setattr(maintenance, "reach", look)
        with Database.open(state.path, write=False) as before:
            with before.snapshot() as connection:
                assert connection.execute("SELECT count(*) FROM claim").fetchone() == (2,)
                restore(state.path, copied, actor=ANA, now=START)
                assert connection.execute("SELECT count(*) FROM claim").fetchone() == (2,)
            assert len(read_world(before).claims) == 1
        assert seen == [("restore.before", 2), ("restore.during", 2), ("restore.after", 1)]
        assert check(state.path) == ()

    @pytest.mark.parametrize("bad", ["damaged", "foreign", "absent", "another state"])
    def test_refuses_a_bad_copy(self, state: State, tmp_path: Path, bad: str) -> None:
        """F-STA-03 F-STA-11: what is no sound backup of this state changes nothing."""
        state.hold("a")
        copied = self.copy(state, tmp_path)
        if bad == "damaged":
            content = bytearray(copied.read_bytes())
            content[8192:12288] = b"\xff" * 4096
            copied.write_bytes(bytes(content))
        elif bad == "foreign":
            copied.write_text("my notes")
        elif bad == "absent":
            copied.unlink()
        else:
            copied.unlink()
            stranger = tmp_path / "stranger" / "gpuaas.db"
            Database.create(stranger, state_id="stranger", now=START).close()
            backup(stranger, copied)
        before = state.path.read_bytes()
        expected = {
            "damaged": "state_damaged",
            "foreign": "state_foreign",
            "absent": "state_missing",
            "another state": "state_foreign",
        }
        assert code(lambda: restore(state.path, copied, actor=ANA, now=START)) == expected[bad]
        assert state.path.read_bytes() == before
        left = {path.name for path in state.path.parent.iterdir()}
        assert {name for name in left if not name.startswith("cache.db")} <= {
            "gpuaas.db",
            "gpuaas.db-wal",
            "gpuaas.db-shm",
        }
        assert read_serial(state.database)[0] == STATE_ID
