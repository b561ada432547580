"""Snapshots: the state as it was before an apply, whole or not at all, and only the last few."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError
from reconciler.model.state.event import Actor
from reconciler.store.backup.maintenance import check, check_copy, restore
from reconciler.store.backup.snapshots import snapshots, take_snapshot
from reconciler.store.file.database import Database
from reconciler.store.serial import read_serial
from tests import privileges
from tests.store.records import START, STATE_ID, State

ROOT = Path(__file__).parents[3]


def folder(state: State) -> Path:
    return state.path.parent / "snapshots"


def names(state: State) -> list[str]:
    return sorted(path.name for path in folder(state).iterdir())


def code(state: State) -> str:
    with pytest.raises(ProblemError) as caught:
        state.journal.snapshot(10)
    assert caught.value.problems[0].hint
    return caught.value.problems[0].code


def test_is_the_whole_state_as_it_was(state: State) -> None:
    """F-STA-11: what was committed is in it, for nobody else to read; nothing lies beside it."""
    state.hold("a", slot="s0")
    number = read_serial(state.database)[1]
    state.journal.snapshot(10)
    taken = state.now
    state.hold("b", slot="s1")
    (one,) = snapshots(state.path)
    assert (one.serial, one.at) == (number, format_moment(taken))
    assert (one.run, one.commit, one.problem) == ("run-000001", "3f9c2e1", "")
    assert names(state) == [f"{number}-{taken:%Y%m%dT%H%M%SZ}.db"]
    assert folder(state).stat().st_mode & 0o777 == 0o700
    assert Path(one.path).stat().st_mode & 0o777 == 0o600
    assert check_copy(Path(one.path)) == ()
    with closing(sqlite3.connect(one.path)) as connection:
        assert connection.execute("SELECT count(*) FROM claim").fetchone() == (1,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_one_for_each_serial(state: State) -> None:
    """F-STA-11: as long as nothing was recorded, there is nothing more to keep."""
    state.hold("a")
    for _ in range(3):
        state.journal.snapshot(10)
        state.run()
    assert len(snapshots(state.path)) == 1


def test_the_same_number_of_another_history(state: State) -> None:
    """F-STA-11: after a restore numbers are given anew; the same number is not the same state."""
    state.hold("a", slot="s0")
    state.journal.snapshot(10)
    (before,) = snapshots(state.path)
    state.hold("b", slot="s1")
    later = read_serial(state.database)[1]
    state.journal.snapshot(10)
    state.database.close()
    restore(state.path, Path(before.path), actor=Actor(name="ana"), now=START)
    with Database.open(state.path, write=True) as database:
        again = State(path=state.path, database=database, now=START + timedelta(hours=1))
        while read_serial(database)[1] < later:
            again.journal.take_over_lock("filler")
            again.hold(f"c{read_serial(database)[1]}", slot=f"s{read_serial(database)[1]}")
        number = read_serial(database)[1]
        again.journal.snapshot(10)
        again.journal.snapshot(10)
    found = [one.serial for one in snapshots(state.path)]
    assert found == [number, later, before.serial]


def test_no_more_than_wanted_stay(state: State) -> None:
    """F-ANS-12: the newest stay, and one that was just made always, whatever the clock says."""
    made = []
    for number in range(6):
        state.hold(f"a{number}", node=f"gpu{number}")
        state.journal.snapshot(3)
        made.append(read_serial(state.database)[1])
    assert [one.serial for one in snapshots(state.path)] == made[:-4:-1]
    state.hold("late", node="gpu9")
    take_snapshot(state.database, START - timedelta(days=400), 3)
    assert read_serial(state.database)[1] in {one.serial for one in snapshots(state.path)}
    assert len(snapshots(state.path)) == 3
    state.hold("later", node="gpu10")
    state.journal.snapshot(1)
    assert len(snapshots(state.path)) == 1


def test_what_a_crash_left_is_no_snapshot(state: State) -> None:
    """F-STA-05: half a copy bears no name of one, is never listed, and goes with the next."""
    state.hold("a")
    script = (
        "import sys; from pathlib import Path; from datetime import datetime, UTC\n"
        "from reconciler.store.file.database import Database\n"
        "from reconciler.store.backup.snapshots import take_snapshot\n"
        "database = Database.open(Path(sys.argv[1]), write=True)\n"
        "take_snapshot(database, datetime.now(UTC), 3)\n"
    )
    environment = {**os.environ, "GPUAAS_STOP_AT": "copy.during", "PYTHONPATH": str(ROOT)}
    killed = subprocess.run([sys.executable, "-c", script, str(state.path)], env=environment)
    assert killed.returncode == -9
    (left,) = names(state)
    assert left.endswith(".db.partial")
    assert snapshots(state.path) == ()
    state.journal.snapshot(3)
    assert len(names(state)) == len(snapshots(state.path)) == 1


def test_a_file_that_is_none_stays(state: State) -> None:
    """F-STA-03: what people put there is theirs, and one that is broken is told."""
    state.hold("a")
    state.journal.snapshot(1)
    kept = folder(state) / "before the move.db"
    kept.write_text("mine")
    broken = folder(state) / "1-20200101T000000Z.db"
    broken.write_text("no database at all, but long enough to be taken for one")
    found = snapshots(state.path)
    assert [one.problem for one in found] == ["", "file is not a database"]
    state.hold("b", slot="s1")
    state.journal.snapshot(1)
    assert kept.read_text() == "mine"
    assert not broken.exists()


@pytest.mark.parametrize("hindrance", ["a file in its place", "a full disk"])
def test_an_apply_does_not_begin_without_it(state: State, hindrance: str) -> None:
    """F-STA-05: it is refused with a clear code, and nothing was written."""
    state.hold("a")
    before = state.rows("SELECT count(*) FROM event")
    if hindrance == "a file in its place":
        folder(state).touch()
        assert code(state) == "snapshot_failed"
        folder(state).unlink()
    else:
        with small_disk(folder(state)):
            assert code(state) == "snapshot_failed"
            assert [path.name for path in folder(state).iterdir()] == ["brim"]
    assert state.rows("SELECT count(*) FROM event") == before
    assert check(state.path) == ()
    state.journal.snapshot(10)
    assert len(snapshots(state.path)) == 1


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """A disk of its own at `place`, filled to the brim."""
    privileges.have(privileges.mounts)
    place.mkdir()
    disk = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(place)]
    subprocess.run(disk, check=True)
    try:
        (place / "brim").write_bytes(b"x" * 40_000)
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_readers_and_writers_go_on(state: State) -> None:
    """F-STA-08: who reads meanwhile is not held up, and sees what was there."""
    state.hold("a")
    with (
        Database.open(state.path, write=False) as reader,
        reader.snapshot() as connection,
    ):
        assert connection.execute("SELECT count(*) FROM claim").fetchone() == (1,)
        state.journal.snapshot(10)
    assert read_serial(state.database)[0] == STATE_ID
