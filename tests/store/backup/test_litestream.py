"""Litestream as it really is: told by a file alone, ended with us, refused where it cannot be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.model.state.event import Actor
from reconciler.store.backup.litestream import Engine, Replica, find_program
from reconciler.store.backup.maintenance import backup, check, check_copy, restore
from reconciler.store.file.database import Database, Opening
from reconciler.store.journal import Journal
from reconciler.store.snapshot import read_world
from reconciler.store.tables import queue
from tests.harness.replica_process import PATIENCE, of_litestream, until
from tests.store.records import START, State, ref

pytestmark = pytest.mark.walk

ROOT = Path(__file__).parents[3]

REPLICATE = """
import json, signal, sys
from pathlib import Path
from reconciler.store.backup.litestream import Engine, Replica
program, path, place = sys.argv[1:]
asked = []
signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
replica = Replica(place=json.loads(place), shown="there")
Engine(program=program, path=Path(path), replica=replica).replicate(lambda: len(asked))
"""


def engine(state: State, folder: Path) -> Engine:
    replica = Replica(place={"type": "file", "path": str(folder)}, shown=str(folder))
    return Engine(program=find_program(), path=state.path, replica=replica)


def start(one: Engine) -> subprocess.Popen[bytes]:
    """`replicate` in a process of its own, as the command runs it."""
    place = json.dumps(dict(one.replica.place))
    return subprocess.Popen(
        [sys.executable, "-c", REPLICATE, one.program, str(one.path), place],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        umask=0o022,
    )


@pytest.fixture
def running(state: State, tmp_path: Path) -> Iterator[tuple[Engine, subprocess.Popen[bytes]]]:
    state.hold("a", slot="s0")
    one = engine(state, tmp_path / "copy")
    process = start(one)
    try:
        until(lambda: list((tmp_path / "copy").rglob("*.ltx")))
        yield one, process
    finally:
        process.kill()
        process.communicate()
        until(lambda: not of_litestream(one.folder))


def claims(path: Path) -> int:
    with Database.open(path, write=False) as database:
        found: int = database.connection.execute("SELECT count(*) FROM claim").fetchone()[0]
        return found


def test_what_was_written_comes_back(
    state: State, running: tuple[Engine, subprocess.Popen[bytes]]
) -> None:
    """F-STA-02: copied while others write, and brought back when the store is gone."""
    one, process = running
    state.hold("b", slot="s1")
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert of_litestream(one.folder) == []
    state.database.close()
    for name in ("gpuaas.db", "gpuaas.db-wal", "gpuaas.db-shm"):
        (state.path.parent / name).unlink(missing_ok=True)
    file = one.fetch()
    assert check_copy(file) == ()
    assert restore(state.path, file, actor=Actor(name="ana"), now=START) is None
    assert (claims(state.path), check(state.path)) == (2, ())
    one.remove_fetched()
    assert not list(one.folder.glob("restored*"))


def test_its_own_tables_are_no_strangers(
    state: State, running: tuple[Engine, subprocess.Popen[bytes]]
) -> None:
    """REL-03: it keeps two tables in the database; anything else is told as ever."""
    until(lambda: state.rows("SELECT 1 FROM sqlite_master WHERE name LIKE '_litestream_%'"))
    assert check(state.path) == ()
    state.database.connection.execute("CREATE TABLE _litestream_evil (a)")
    state.database.connection.execute(
        "CREATE TRIGGER _litestream_seq AFTER INSERT ON _litestream_seq BEGIN SELECT 1; END"
    )
    assert sorted(problem.message for problem in check(state.path)) == [
        "table _litestream_evil is none of ours",
        "trigger _litestream_seq is none of ours",
    ]


def test_nobody_else_reads_what_it_keeps(
    state: State, running: tuple[Engine, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """SEC-05: whatever the umask says, its files and those of a copy in a folder are ours alone."""
    one, _ = running
    until(lambda: list(one.folder.rglob("*.ltx")))
    for folder in (one.folder, tmp_path / "copy"):
        for path in (folder, *folder.rglob("*")):
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_us(
    state: State, running: tuple[Engine, subprocess.Popen[bytes]], how: signal.Signals
) -> None:
    """F-STA-06: killed or asked, no process of it stays behind."""
    one, process = running
    assert len(of_litestream(one.folder)) == 1
    process.send_signal(how)
    process.wait(PATIENCE)
    until(lambda: not of_litestream(one.folder))


def test_we_end_with_it(running: tuple[Engine, subprocess.Popen[bytes]]) -> None:
    """F-STA-04: a copy that is not made any more is told, and is no success."""
    one, process = running
    (pid,) = of_litestream(one.folder)
    os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert b"replicator_failed" in errors


@pytest.mark.parametrize("how", ["restored", "gone"])
def test_another_file_in_its_place_ends_it(
    state: State, running: tuple[Engine, subprocess.Popen[bytes]], tmp_path: Path, how: str
) -> None:
    """F-STA-11: Litestream itself would go on with the file that is no state any more."""
    one, process = running
    state.database.close()
    if how == "restored":
        (tmp_path / "new.db").write_bytes(state.path.read_bytes())
        os.replace(tmp_path / "new.db", state.path)
    else:
        state.path.unlink()
    _, errors = process.communicate(timeout=PATIENCE)
    assert b"is not the file any more that it was" in errors
    assert of_litestream(one.folder) == []


def test_a_restore_is_copied_on_as_any_change(
    state: State, running: tuple[Engine, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """F-STA-11: a sound state stays the same file, so whoever copies it goes on with what it is."""
    one, process = running
    copied = tmp_path / "backup.db"
    backup(state.path, copied)
    state.hold("b", slot="s1")
    state.database.close()
    restore(state.path, copied, actor=Actor(name="ana"), now=START)
    assert (claims(state.path), process.poll()) == (1, None)
    with Database.open(state.path, write=True) as database:
        journal = Journal(database, Actor(name="ana"), state.clock)
        journal.enter("wait", queue.join, [ref("vision/later")])
    time.sleep(3)
    process.terminate()
    assert process.wait(PATIENCE) == 0
    file = one.fetch()
    assert check_copy(file) == ()
    assert claims(file) == 1
    with Database.open(file, write=False, opening=Opening(anywhere=True)) as database:
        assert [str(one) for one in read_world(database).waiting] == ["allocation/vision/later"]


def test_a_damaged_state_that_is_copied_is_not_exchanged(
    state: State,
    running: tuple[Engine, subprocess.Popen[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F-STA-03: Litestream would go on with the file that was put aside."""
    monkeypatch.setattr("reconciler.store.backup.maintenance.READERS_SECONDS", 0.5)
    backup(state.path, tmp_path / "backup.db")
    state.database.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    state.database.close()
    with state.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 4096 * 20)
    damaged = state.path.read_bytes()
    with pytest.raises(ProblemError) as caught:
        restore(state.path, tmp_path / "backup.db", actor=Actor(name="ana"), now=START)
    assert caught.value.problems[0].code == "state_in_use"
    assert state.path.read_bytes() == damaged


def test_goes_on_after_an_older_state_came_back(
    state: State, running: tuple[Engine, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """F-STA-11: the same place then holds the newer history, whatever it held before."""
    one, process = running
    state.hold("b", slot="s1")
    process.terminate()
    process.wait(PATIENCE)
    older = one.fetch().rename(tmp_path / "older.db")
    state.hold("c", node="gpu02")
    process = start(one)
    time.sleep(3)
    process.terminate()
    process.wait(PATIENCE)
    state.database.close()
    restore(state.path, older, actor=Actor(name="ana"), now=START)
    assert claims(state.path) == 2
    process = start(one)
    try:
        time.sleep(3)
        with Database.open(state.path, write=True) as database:
            State(path=state.path, database=database).hold("d", node="gpu03")
            State(path=state.path, database=database).hold("e", node="gpu04")
    finally:
        process.terminate()
        process.wait(PATIENCE)
    assert claims(one.fetch()) == 4


def test_nothing_comes_back_from_nowhere(state: State, tmp_path: Path) -> None:
    """F-STA-02: no copy is no empty state."""
    one = engine(state, tmp_path / "nowhere")
    with pytest.raises(ProblemError) as caught:
        one.fetch()
    (problem,) = caught.value.problems
    assert (problem.code, str(tmp_path) in problem.message) == ("replicator_failed", True)
    assert not list(one.folder.glob("restored*"))


def test_a_hostile_place_is_data(state: State, tmp_path: Path) -> None:
    """F-ANS-01: it stands in a file that is not expanded, and never among options."""
    place = tmp_path / "${HOME} --exec 'touch x' $(id): {a: b} #"
    one = engine(state, place)
    state.hold("a")
    process = start(one)
    try:
        until(lambda: list(place.rglob("*.ltx")))
    finally:
        process.terminate()
        process.wait(PATIENCE)
    assert claims(one.fetch()) == 1


class TestProgram:
    def test_missing(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """F-STA-04: said with how to install it, instead of a copy that nobody makes."""
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
        with pytest.raises(ProblemError) as caught:
            find_program()
        (problem,) = caught.value.problems
        assert problem.code == "replicator_missing"
        assert "pip install" in problem.hint

    @pytest.mark.parametrize(("says", "fits"), [("v0.3.13", False), ("0.5.0", True), ("", False)])
    def test_on_the_path(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, fits: bool
    ) -> None:
        """F-STA-13: an older one writes another format."""
        program = tmp_path / "litestream"
        program.write_text(f"#!/bin/sh\necho '{says}'\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr("sys.executable", "/nowhere/python")
        if fits:
            assert find_program() == str(program)
        else:
            with pytest.raises(ProblemError) as caught:
                find_program()
            assert caught.value.problems[0].code == "replicator_missing"
