"""What leaves the state, and what never does: runs, archived events, and crashes in between."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.model.plan.lifecycle import RunState
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.work import StepOutcome, WaveIntent, WaveOutcome
from reconciler.model.problem import ProblemError
from reconciler.model.settings import KeepSettings
from reconciler.model.state.event import Actor, Event, EventType
from reconciler.stops import STOP_AT
from reconciler.store import chain, queries
from reconciler.store.backup.maintenance import backup, check, restore
from reconciler.store.file.connection import LOG_LIMIT
from reconciler.store.file.database import Database, Opening
from reconciler.store.file.schema import Schema, shipped_schema
from reconciler.store.retention import archive
from reconciler.store.serial import read_serial
from reconciler.store.tables import queue
from tests.store.records import (
    START,
    State,
    done,
    make_observation,
    make_recorded,
    make_step,
    ref,
)

FEW = KeepSettings(runs=100, events=1000)
A = ref("allocation/vision/a")
KILLED = """
import sys
from pathlib import Path
from reconciler.model.settings import KeepSettings
from reconciler.store.file.database import Database
from reconciler.store.retention.pruning import tidy
with Database.open(Path(sys.argv[1]), write=True) as database:
    tidy(database, KeepSettings(runs=100, events=1000))
"""


def change(state: State, number: int) -> None:
    """One apply of a small change: what it is called, on which host, and what that shows then."""
    run, step = state.run(), make_step("a")
    recorded = make_recorded("a", commit=f"{number:07x}", basis=f"sha256:{number}")
    seen = make_observation(digest=f"sha256:{number}", at="2026-11-01T12:00:30Z")
    state.journal.begin_wave(run, WaveIntent(steps=(step,)))
    state.journal.finish_wave(run, done(step, observations=(seen,)), [recorded])
    state.journal.end_run(run, RunState.DONE)


def changes(state: State, first: int, last: int) -> None:
    for number in range(first, last):
        state.journal.tidy(FEW)
        change(state, number)
    state.journal.tidy(FEW)


def unanswered(state: State, name: str = "a", node: str = "gpu01") -> str:
    """A run whose one step has an unknown end."""
    run, step = state.run(), make_step(name, node)
    state.journal.begin_wave(run, WaveIntent(steps=(step,)))
    state.journal.finish_wave(run, unknown(step))
    state.journal.end_run(run, RunState.FAILED)
    return run


def unknown(step: Step) -> WaveOutcome:
    outcome = StepOutcome(step=step, ok=False, changed=False, unknown=True)
    return WaveOutcome(steps=(outcome,))


def runs_of(state: State) -> list[str]:
    return [run.id for run in queries.runs(state.database)]


def files(state: State) -> list[Path]:
    return sorted((state.path.parent / archive.FOLDER).iterdir())


def told(state: State) -> list[Event]:
    return list(queries.events(state.database))


@pytest.fixture(scope="module")
def well_used(fresh: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with more events than are to stay, none of them moved yet; made once."""
    path = tmp_path_factory.mktemp("used") / "gpuaas.db"
    path.parent.chmod(0o700)
    shutil.copy(fresh, path)
    with opened(path) as state:
        state.hold()
        for number in range(200):
            change(state, number)
    return path


@pytest.fixture
def used(state_path: Path, well_used: Path) -> Iterator[State]:
    state_path.parent.mkdir(mode=0o700)
    shutil.copy(well_used, state_path)
    with opened(state_path) as state:
        yield state


@contextmanager
def opened(path: Path) -> Iterator[State]:
    """No test pulls the plug, and every commit would wait for the disk."""
    with Database.open(path, write=True) as database:
        database.connection.execute("PRAGMA synchronous = OFF")
        yield State(path=path, database=database)


class TestSize:
    def test_thousands_of_applies_leave_a_store_of_one_size(self, state: State) -> None:
        """F-ANS-12: after twice and three times as many it is as large, and all is still told."""
        state.hold()
        sizes = []
        for round_ in range(3):
            changes(state, round_ * 300, (round_ + 1) * 300)
            pages, free = (
                state.rows(f"PRAGMA {name}")[0][0] for name in ("page_count", "freelist_count")
            )
            sizes.append(pages)
            assert free < pages / 3
        assert sizes[2] <= sizes[1] * 1.02
        assert len(runs_of(state)) == 100
        assert state.rows("SELECT count(*) FROM step") == [(100,)]
        ((held,),) = state.rows("SELECT count(*) FROM event")
        assert 800 <= held <= 1000

        events = told(state)
        assert events[0].type is EventType.STATE_CREATED
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert len(events) > 5000
        assert check(state.path) == ()
        archived = sum(path.stat().st_size for path in files(state))
        assert archived / (len(events) - held) < 100, "bytes an event"

    def test_nothing_moves_while_there_is_room(self, state: State) -> None:
        state.hold()
        for number in range(90):
            change(state, number)
        before = told(state)
        state.journal.tidy(FEW)
        assert told(state) == before
        assert not (state.path.parent / archive.FOLDER).exists()

    def test_the_log_of_writes_is_bounded(self, state: State) -> None:
        """However much one transaction writes, the file that it was written to is cut back."""
        log = state.path.with_name(state.path.name + "-wal")
        with state.database.transaction("wait") as connection:
            connection.executemany(
                "INSERT INTO waiting VALUES (?, 't')", ((f"{n:0400}",) for n in range(100_000))
            )
        state.database.connection.execute("PRAGMA wal_checkpoint(RESTART)")
        state.journal.enter("wait", queue.join, [A])
        assert log.stat().st_size <= LOG_LIMIT


class TestRuns:
    def test_a_run_without_an_end_stays(self, state: State) -> None:
        """F-STA-07: what nobody has seen the end of is known however many runs come after."""
        state.hold("b", "gpu02", "s1")
        kept = unanswered(state, "b", "gpu02")
        state.hold()
        changes(state, 0, 150)
        assert runs_of(state)[-1] == kept
        assert [step.run for step in state.journal.world().open_steps] == [kept]

        seen = make_observation("gpu02", at="2027-01-01T00:00:00Z")
        state.journal.observe([seen])
        state.journal.tidy(FEW)
        assert kept not in runs_of(state)

    def test_of_many_in_vain_the_last_stays(self, state: State) -> None:
        """A host that is down for a year, and is asked each minute."""
        state.hold()
        tries = [unanswered(state) for _ in range(250)]
        changes_of_b = make_step("b", "gpu02")
        for _ in range(150):
            run = state.run()
            state.journal.begin_wave(run, WaveIntent(steps=(changes_of_b,)))
            state.journal.finish_wave(run, done(changes_of_b))
            state.journal.end_run(run, RunState.DONE)
        state.journal.tidy(FEW)
        assert runs_of(state)[-1] == tries[-1]
        assert len(runs_of(state)) == 101

    def test_a_run_that_was_killed_at_its_start_goes_as_well(self, state: State) -> None:
        state.hold()
        killed = state.run()
        changes(state, 0, 150)
        assert killed not in runs_of(state)

    def test_a_revocation_outlives_its_runs(self, state: State) -> None:
        """F-GRT-02, ACC-10: its steps and events are gone, and still it is told, since then."""
        state.hold("b", "gpu02", "s1")
        b = ref("allocation/vision/b")
        sync = replace(make_step("b", "gpu02", Order.RETIRE), verb="access.sync", revokes=("bo",))
        for _ in range(2):
            run = state.run()
            state.journal.begin_wave(run, WaveIntent(steps=(sync,)))
            state.journal.finish_wave(run, unknown(sync))
        before = state.journal.world().revocations
        assert [(one.ref, one.people) for one in before] == [(b, ("bo",))]
        state.hold()
        changes(state, 0, 300)
        assert state.rows("SELECT count(*) FROM event WHERE ref = ?", str(b)) == [(0,)]
        assert state.journal.world().revocations == before

    def test_a_used_plan_goes_with_its_run(self, state: State) -> None:
        run = state.run()
        state.journal.use_plan("sha256:f", run)
        state.hold()
        changes(state, 0, 98)
        assert queries.plan_used_at(state.database, "sha256:f")
        changes(state, 98, 150)
        assert queries.plan_used_at(state.database, "sha256:f") == ""


class TestEvents:
    def test_the_serial_stays(self, state: State) -> None:
        """A plan is not stale because old events have moved."""
        state.hold()
        before = read_serial(state.database)
        for number in range(1200):
            state.journal.observe([make_observation(digest=f"sha256:{number}")])
        state.journal.tidy(FEW)
        assert state.rows("SELECT min(sequence) > ? FROM event", before[1]) == [(1,)]
        assert read_serial(state.database) == before

    def test_a_snapshot_of_this_serial_is_known_by_it(self, state: State) -> None:
        """F-STA-11: none is made anew, in the place of an older one, as its event has moved."""
        state.hold()
        state.journal.snapshot(3)
        for number in range(1200):
            state.journal.observe([make_observation(digest=f"sha256:{number}")])
        state.journal.tidy(FEW)
        state.journal.snapshot(3)
        state.journal.snapshot(3)
        assert len(list((state.path.parent / "snapshots").iterdir())) == 1

    def test_what_is_asked_for_is_read_and_no_more(self, used: State) -> None:
        before = told(used)
        used.journal.tidy(FEW)
        assert told(used) == before
        assert list(queries.events(used.database, "node/gpu01")) == [
            event for event in before if event.ref == "node/gpu01"
        ]
        for path in files(used):
            path.unlink()
        ((last,),) = used.rows("SELECT max(last) FROM event_archive")
        assert list(queries.events(used.database, after=last)) == before[last:]

    def test_the_last_of_a_ref_is_found_wherever_it_is(self, state: State) -> None:
        state.hold("b", "gpu02", "s1")
        b = "allocation/vision/b"
        before = queries.last_events(state.database, b, 20)
        state.hold()
        changes(state, 0, 500)
        assert len(files(state)) > 2
        assert queries.last_events(state.database, b, 20) == before
        assert queries.last_events(state.database, b, 2) == before[-2:]
        assert queries.last_events(state.database, "sku/nothing", 20) == ()

    def test_events_that_move_while_they_are_read(self, used: State) -> None:
        before = told(used)
        reading = queries.events(used.database)
        got = [next(reading) for _ in range(10)]
        with opened(used.path) as other:
            other.journal.tidy(FEW)
        assert got + list(reading) == before

    def test_private_and_the_same_bytes_again(self, used: State, tmp_path: Path) -> None:
        """SEC-05: a file of 0600 in a folder of 0700; two that moved the same made the same."""
        twin = tmp_path / "twin" / "gpuaas.db"
        twin.parent.mkdir(mode=0o700)
        backup(used.path, twin)
        used.journal.tidy(FEW)
        with opened(twin) as other:
            other.journal.tidy(FEW)
        folder = used.path.parent / archive.FOLDER
        assert folder.stat().st_mode & 0o777 == 0o700
        for path in files(used):
            assert path.stat().st_mode & 0o777 == 0o600
            assert (twin.parent / archive.FOLDER / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "stop", ["prune.before", "prune.after", "archive.during", "archive.before", "archive.after"]
)
def test_killed_at_any_point(used: State, stop: str) -> None:
    """F-STA-01: whenever it is killed no event is lost or told twice, and the next one goes on."""
    before = told(used)
    used.database.close()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(used.path)], env={**os.environ, STOP_AT: stop}
    )
    assert killed.returncode == -signal.SIGKILL
    for round_ in range(2):
        with opened(used.path) as after:
            assert told(after) == before
            assert check(used.path) == ()
            after.journal.tidy(FEW)
            if round_:
                assert len(runs_of(after)) == 100
                listed = {file for (file,) in after.rows("SELECT file FROM event_archive")}
                assert {path.name for path in files(after)} == listed


class TestHarm:
    """What became of the files behind our back is named, and nothing else suffers from it."""

    def spoil(self, path: Path, how: str) -> None:
        if how == "gone":
            path.unlink()
        elif how == "cut":
            path.write_bytes(path.read_bytes()[:-200])
        elif how == "noise":
            path.write_bytes(b"my notes")
        else:
            text = gzip.decompress(path.read_bytes())
            path.write_bytes(gzip.compress(text.replace(b'"ana"', b'"eve"', 1)))

    @pytest.mark.parametrize(
        ("how", "code"),
        [
            ("gone", "archive_missing"),
            ("cut", "archive_broken"),
            ("noise", "archive_broken"),
            ("changed", "archive_broken"),
        ],
    )
    def test_is_named(self, used: State, how: str, code: str) -> None:
        """F-STA-03: a finding with the file's name; plans, applies and copies go on."""
        used.journal.tidy(FEW)
        first, *_ = files(used)
        self.spoil(first, how)
        (found,) = check(used.path)
        assert (found.code, str(first) in found.message) == (code, True)
        with pytest.raises(ProblemError) as caught:
            told(used)
        assert caught.value.problems[0].code == code
        change(used, 999)
        used.journal.tidy(FEW)
        assert used.journal.world().recorded[A].commit == f"{999:07x}"
        backup(used.path, used.path.parent / "copy.db")

    def test_a_resource_that_went_after_its_events(
        self, state: State, raw: sqlite3.Connection
    ) -> None:
        """F-STA-02: what was recorded, as only an archive knows, is missed by a full check."""
        state.hold("b", "gpu02", "s1")
        state.hold()
        changes(state, 0, 300)
        assert check(state.path) == ()
        guards = ("resource_is_forgotten_by_event", "resource_holds_claims")
        made = [shipped(raw, name) for name in guards]
        for name in guards:
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute("DELETE FROM resource WHERE ref = 'allocation/vision/b'")
        for statement in made:
            raw.execute(statement)
        (found,) = check(state.path)
        assert found.message == "allocation/vision/b: recorded, never forgotten, and not there"


def shipped(connection: sqlite3.Connection, name: str) -> str:
    """The statement that made a guard."""
    query = "SELECT sql FROM sqlite_master WHERE name = ?"
    return str(connection.execute(query, (name,)).fetchone()[0])


class TestRestore:
    def test_an_older_copy_whose_events_have_moved_since(self, used: State, tmp_path: Path) -> None:
        """F-STA-11: its events are in files already; it goes on, and parts from what came after."""
        copied = tmp_path / "copy.db"
        backup(used.path, copied)
        known = told(used)
        changes(used, 200, 410)
        before = {path.name: path.read_bytes() for path in files(used)}
        used.database.close()

        restore(used.path, copied, actor=Actor(name="ana"), now=START)
        with opened(used.path) as again:
            changes(again, 500, 710)
            assert told(again)[: len(known)] == known
            assert check(used.path) == ()
            after = {path.name: path.read_bytes() for path in files(again)}
            listed = {file for (file,) in again.rows("SELECT file FROM event_archive")}
        assert before.items() <= after.items(), "no file was written over"
        assert listed & before.keys(), "the same events are the same file"
        assert listed - before.keys(), "others have another name"

    def test_of_one_name_and_another_content(self, used: State, tmp_path: Path) -> None:
        """Whatever somebody has put there stays, and the events get a name of their own."""
        twin = tmp_path / "twin" / "gpuaas.db"
        twin.parent.mkdir(mode=0o700)
        backup(used.path, twin)
        used.journal.tidy(FEW)
        first, *_ = files(used)
        folder = twin.parent / archive.FOLDER
        folder.mkdir(mode=0o700)
        (folder / first.name).write_text("my notes")
        with opened(twin) as other:
            other.journal.tidy(FEW)
        assert (folder / first.name).read_text() == "my notes"
        assert (folder / first.name.replace(".", "-1.", 1)).read_bytes() == first.read_bytes()
        assert check(twin) == ()


class TestGuards:
    @pytest.mark.parametrize(
        ("sql", "told"),
        [
            (
                "DELETE FROM event WHERE sequence = (SELECT max(sequence) FROM event)",
                "in no archive",
            ),
            ("DELETE FROM event_archive", "never forgotten"),
            ("UPDATE event_archive SET digest = 'x'", "never changes"),
            ("INSERT INTO event_archive VALUES (1, 'x', 1, 'f')", "goes on from"),
            ("INSERT INTO event_archive VALUES (9999, 'x', 1, 'f')", "goes on from"),
            ("INSERT OR REPLACE INTO event_archive SELECT * FROM event_archive", "goes on from"),
            ("DELETE FROM run WHERE number = (SELECT max(number) FROM run)", "of late"),
            ("DELETE FROM plan", "stays used"),
            ("DELETE FROM step WHERE state = 'unknown'", "without an end"),
        ],
    )
    def test_hold_whoever_asks(self, used: State, sql: str, told: str) -> None:
        """REL-03 F-STA-03: raw SQL takes away nothing that code would not."""
        used.journal.tidy(FEW)
        used.journal.use_plan("sha256:f", unanswered(used, "b", "gpu02"))
        with closing(used.raw()) as raw, pytest.raises(sqlite3.IntegrityError) as caught:
            raw.execute(sql)
        assert told in str(caught.value)


def test_an_earlier_state_keeps_its_revocations(tmp_path: Path) -> None:
    """F-STA-10: the migration takes them over from the steps and events that told them before."""
    migrations = dict(list(shipped_schema().migrations.items())[:4])
    opening = Opening(schema=Schema(migrations=migrations))
    path = tmp_path / "state" / "gpuaas.db"
    Database.create(path, state_id="s", now=START, opening=opening).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for number in (1, 2, 3):
            values = (number, f"run-{number:06}")
            raw.execute(f"INSERT INTO run VALUES (?, ?, {EARLIER_RUN})", values)
        for run, name, state, people in EARLIER:
            id_, step = f"run-{run:06}", f"sync-{name}"
            about = f"allocation/vision/{name}"
            raw.execute(
                'INSERT INTO step (run, id, wave, ref, verb, node, "order", work, state, started)'
                " VALUES (?, ?, 1, ?, 'access.sync', 'gpu01', 'retire', '', ?, ?)",
                (id_, step, about, state, f"t{run}"),
            )
            after = {"step": step, "verb": "access.sync", "node": "gpu01", "revokes": people}
            started = Event(
                type=EventType.STEP_STARTED, actor="ana", ref=about, run=id_, after=after
            )
            chain.append(raw, [started])
    with Database.open(path, write=True) as database:
        rows = database.connection.execute("SELECT * FROM revocation ORDER BY ref").fetchall()
    assert rows == [("allocation/vision/a", "gpu01", '["bo","cem"]', "t2")]


EARLIER_RUN = "'ana', 'f', 'd', 1, 'c', 'failed', 't', 't', 't', ''"
EARLIER = (
    (1, "a", "done", ["ana"]),
    (2, "a", "failed", ["bo"]),
    (3, "a", "unknown", ["bo", "cem"]),
    (1, "b", "failed", ["bo"]),
    (2, "b", "done", ["bo"]),
)
"""Run, allocation, how the step ended, and whom it was to lock out."""
