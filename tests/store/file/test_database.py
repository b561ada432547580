"""Making and opening the state: every doubt is a refusal, and nothing is ever made again."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from reconciler.model.problem import ProblemError
from reconciler.store.backup.maintenance import check
from reconciler.store.file.connection import set_modes
from reconciler.store.file.database import Database, Opening
from reconciler.store.file.schema import Schema, shipped_schema
from reconciler.store.snapshot import read_world
from tests import privileges
from tests.store.records import START, STATE_ID, State, make_recorded, ref


def code_of(path: Path, *, write: bool, opening: Opening | None = None) -> str:
    """The code with which opening (or reading everything after it) is refused; '' if it is not."""
    try:
        with Database.open(path, write=write, opening=opening) as database:
            [dict(one.normal) for one in read_world(database).recorded.values()]
    except ProblemError as error:
        assert all(problem.hint for problem in error.problems)
        return error.problems[0].code
    return ""


def files(folder: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def closed(state: State) -> Path:
    """A state with something in it, at rest."""
    state.hold_many([f"a{number}" for number in range(60)])
    state.database.close()
    return state.path


def test_create_makes_a_private_state(state_path: Path) -> None:
    """SEC-05: the database is 0600 in a folder 0700, its journal and shared memory too."""
    with Database.create(state_path, state_id=STATE_ID, now=START) as database:
        State(path=state_path, database=database).hold("a")
        assert state_path.parent.stat().st_mode & 0o777 == 0o700
        for path in state_path.parent.iterdir():
            assert path.stat().st_mode & 0o777 == 0o600, path
        assert read_world(database).state_id == STATE_ID


def test_modes_in_force(closed: Path) -> None:
    """F-STA-09: commits are durable and readers never wait; read back, not assumed."""
    version = shipped_schema().version
    pragmas = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "user_version": version}
    with Database.open(closed, write=True) as database:
        for name, value in pragmas.items():
            assert database.connection.execute(f"PRAGMA {name}").fetchone() == (value,), name


@pytest.mark.parametrize("left", ["gpuaas.db", "gpuaas.db-wal", "lock", "runs", "notes.txt"])
def test_create_only_where_nothing_was(state_path: Path, left: str) -> None:
    """F-STA-02: leftovers of a state are no place for a new one."""
    state_path.parent.mkdir()
    (state_path.parent / left).touch()
    with pytest.raises(ProblemError) as caught:
        Database.create(state_path, state_id="new", now=START)
    assert caught.value.problems[0].code == "state_exists"
    assert [path.name for path in state_path.parent.iterdir()] == [left]


@pytest.mark.parametrize("left", [".gitkeep", "cache.db", "cache.db-wal", "gpuaas.db.partial"])
def test_create_beside_what_is_no_state(state_path: Path, left: str) -> None:
    """F-STA-02: a cache, or what a killed `init` left, is no state."""
    state_path.parent.mkdir()
    (state_path.parent / left).touch()
    Database.create(state_path, state_id="new", now=START).close()
    assert code_of(state_path, write=False) == ""


@pytest.mark.parametrize("write", [False, True])
def test_missing_is_lost_not_new(state_path: Path, write: bool) -> None:
    """F-STA-02: a wrong path or a deleted database is `state_missing`, and stays missing."""
    state_path.parent.mkdir(mode=0o700)
    assert code_of(state_path, write=write) == "state_missing"
    assert list(state_path.parent.iterdir()) == []


def test_dropped_tables_are_damage(closed: Path) -> None:
    """F-STA-02: a database that lost a table is damaged, not empty."""
    with closing(sqlite3.connect(closed)) as connection:
        connection.execute("DROP TABLE observation")
    assert code_of(closed, write=False) == "state_damaged"


class TestDamage:
    """F-STA-03: a damaged state is refused and kept, byte for byte."""

    @contextmanager
    def kept(self, path: Path) -> Iterator[None]:
        before = path.read_bytes()
        yield
        assert path.read_bytes() == before
        assert not list(path.parent.glob("*.partial"))

    def test_flipped_bytes(self, closed: Path) -> None:
        """F-STA-03: wherever a page is overwritten, writing is refused or nothing was hit."""
        sound = closed.read_bytes()
        refused = 0
        for offset in range(4096, len(sound) - 512, 4096 * 3):
            closed.write_bytes(sound[:offset] + b"\xa5" * 512 + sound[offset + 512 :])
            with self.kept(closed):
                refused += code_of(closed, write=True) == "state_damaged"
        assert refused >= 5

    def test_flipped_content(self, closed: Path) -> None:
        """F-STA-03: a changed letter that breaks no page is found by the row's own digest."""
        sound = closed.read_bytes()
        assert b"h100-slice-1" in sound
        closed.write_bytes(sound.replace(b"h100-slice-1", b"h200-slice-8"))
        with self.kept(closed):
            assert code_of(closed, write=False) == "state_damaged"

    @pytest.mark.parametrize("keep", [0, 40, 100, 4096, 4096 * 5 + 77])
    @pytest.mark.parametrize("write", [False, True])
    def test_truncated(self, closed: Path, keep: int, write: bool) -> None:
        """F-STA-03: half a database is damaged, none of it is made up."""
        os.truncate(closed, keep)
        with self.kept(closed):
            assert code_of(closed, write=write) in ("state_damaged", "state_foreign")

    def test_zero_bytes(self, closed: Path) -> None:
        """F-STA-03 F-STA-05: what a failed write leaves is damage, not an empty state."""
        closed.write_bytes(b"\0" * closed.stat().st_size)
        with self.kept(closed):
            assert code_of(closed, write=True) == "state_damaged"

    def test_log_of_another_generation(self, closed: Path, tmp_path: Path) -> None:
        """F-STA-03: a write-ahead log that belongs to another database is not believed."""
        older, log = tmp_path / "older.db", closed.with_name("gpuaas.db-wal")
        shutil.copy(closed, older)
        with Database.open(closed, write=True) as database:
            State(path=closed, database=database).release("a1", "gpu001")
            for number in range(300):
                State(path=closed, database=database).journal.take_over_lock(f"filler {number}")
        with Database.open(closed, write=True) as database:
            State(path=closed, database=database).release("a2", "gpu002")
            left_behind = log.read_bytes()
        shutil.copy(older, closed)
        log.write_bytes(left_behind)
        with self.kept(closed):
            assert code_of(closed, write=False) == "state_damaged"
            assert code_of(closed, write=True) == "state_damaged"


@pytest.mark.parametrize("content", [b"apiVersion: gpuaas/v1\n", b"\x7fELF" + b"\1" * 9000])
def test_foreign_file(closed: Path, content: bytes) -> None:
    """F-STA-03: a file that is no database is refused and left alone."""
    closed.write_bytes(content)
    assert code_of(closed, write=True) == "state_foreign"
    assert closed.read_bytes() == content


def test_foreign_database(state_path: Path) -> None:
    """F-STA-03: the database of another program is refused and left alone."""
    state_path.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(state_path)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    assert code_of(state_path, write=True) == "state_foreign"


class TestVersions:
    def make_newer(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("ALTER TABLE claim ADD COLUMN colour TEXT DEFAULT 'red'")
            connection.execute(f"PRAGMA user_version = {shipped_schema().version + 1}")

    def test_newer_is_refused(self, closed: Path) -> None:
        """F-STA-13: a state of a newer program is not written, and both versions are told."""
        self.make_newer(closed)
        before = closed.read_bytes()
        for write in (False, True):
            with pytest.raises(ProblemError) as caught:
                Database.open(closed, write=write)
            (problem,) = caught.value.problems
            assert problem.code == "state_newer"
            assert f"schema {shipped_schema().version + 1}" in problem.message
            assert f"schema {shipped_schema().version} at most" in problem.message
        assert code_of(closed, write=True, opening=Opening(newer_ok=True)) == "state_newer"
        assert closed.read_bytes() == before

    def test_newer_may_be_looked_into(self, closed: Path) -> None:
        """F-STA-13: read-only status at most."""
        self.make_newer(closed)
        with Database.open(closed, write=False, opening=Opening(newer_ok=True)) as database:
            assert len(read_world(database).claims) == 60
            with (
                pytest.raises(ProblemError) as caught,
                database.transaction("observe") as connection,
            ):
                connection.execute("DELETE FROM waiting")
            assert caught.value.problems[0].code == "state_read_only"

    REBUILD = """
        -- The classic trap: a parent table is made anew under its old name.
        DROP VIEW projected_allocation; DROP VIEW projected_slot; DROP VIEW projected_node;
        DROP TRIGGER plan_stays_used;
        CREATE TABLE run_new (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, colour TEXT);
        INSERT INTO run_new SELECT number, id, 'red' FROM run;
        DROP TABLE run;
        ALTER TABLE run_new RENAME TO run;
    """

    def with_migration(self, text: str) -> Opening:
        migrations = {**shipped_schema().migrations, "0004_next": text}
        return Opening(schema=Schema(migrations=migrations))

    def counts(self, path: Path) -> dict[str, int]:
        with closing(sqlite3.connect(path)) as connection:
            tables = ("claim", "step", "event", "resource", "run", "usage_record")
            return {
                table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in tables
            }

    def test_rebuilding_a_table_loses_no_row(self, closed: Path) -> None:
        """F-STA-10: row counts are equal before and after, and a copy is kept."""
        opening, before = self.with_migration(self.REBUILD), self.counts(closed)
        assert code_of(closed, write=False, opening=opening) == "state_older"
        Database.open(closed, write=True, opening=opening).close()
        assert self.counts(closed) == before
        assert code_of(closed, write=False, opening=opening) == ""
        (copied,) = (closed.parent / "backups").iterdir()
        assert self.counts(copied) == before
        assert copied.stat().st_mode & 0o777 == 0o600

    def test_half_a_migration_is_none(self, closed: Path) -> None:
        """F-STA-10: a migration that fails or is killed half way leaves the state as it was."""
        before = self.counts(closed)
        broken = self.with_migration(self.REBUILD + "INSERT INTO nowhere VALUES (1);")
        assert code_of(closed, write=True, opening=broken) == "state_damaged"
        killed = subprocess.run([sys.executable, "-c", KILLED, str(closed), self.REBUILD])
        assert killed.returncode == -9
        assert self.counts(closed) == before
        assert code_of(closed, write=False) == ""
        assert check(closed) == ()
        Database.open(closed, write=True, opening=self.with_migration(self.REBUILD)).close()
        assert self.counts(closed) == before

    def test_orphans_stop_a_migration(self, closed: Path) -> None:
        """F-STA-10: foreign keys are off while tables are rebuilt, and checked before the end."""
        before = self.counts(closed)
        lossy = self.with_migration("DROP TABLE run; CREATE TABLE run (id TEXT PRIMARY KEY);")
        assert code_of(closed, write=True, opening=lossy) == "state_damaged"
        assert self.counts(closed) == before


KILLED = """
import os, sqlite3, sys
from pathlib import Path
from reconciler.store.file.schema import Schema, migrate, shipped_schema
path, text = sys.argv[1:]
connection = sqlite3.connect(path, isolation_level=None)
connection.create_function("die", 0, lambda: os.kill(os.getpid(), 9))
last = text + "SELECT die();"
migrate(connection, Schema(migrations={**shipped_schema().migrations, "0004_next": last}))
"""


class TestPlace:
    MOUNTS = "27 1 254:0 / / rw - ext4 /dev/vda rw\n31 27 0:40 / {point} rw - {kind} server:/x rw\n"

    @pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs"])
    def test_network_disk(self, state: State, kind: str) -> None:
        """F-STA-09: no write-ahead log on a file system whose locks end at one machine."""
        opening = Opening(mounts=self.MOUNTS.format(point=state.path.parent.parent, kind=kind))
        for write in (False, True):
            assert code_of(state.path, write=write, opening=opening) == "state_unsafe_place"
        new = state.path.parent.parent / "new" / "gpuaas.db"
        with pytest.raises(ProblemError) as caught:
            Database.create(new, state_id="x", now=START, opening=opening)
        assert caught.value.problems[0].code == "state_unsafe_place"
        assert not new.exists()

    def test_journal_mode_is_read_back(self, tmp_path: Path) -> None:
        """F-STA-09: where SQLite keeps no write-ahead log, that is noticed and refused."""
        path = tmp_path / "gpuaas.db"
        with (
            closing(sqlite3.connect(f"file:{path}?vfs=unix-dotfile", uri=True)) as connection,
            pytest.raises(ProblemError) as caught,
        ):
            set_modes(connection, path)
        assert caught.value.problems[0].code == "state_unsafe_place"

    @pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
    def test_folder_of_others(self, state: State, mode: int) -> None:
        """SEC-05: who may write to the folder may put another database there."""
        state.path.parent.chmod(mode)
        assert code_of(state.path, write=False) == "state_unsafe_place"


class TestFullDisk:
    """F-STA-05: a failed save changes nothing, says so, and works again with space."""

    def fill(self, state: State) -> str:
        rows = [
            make_recorded(f"r{number}", ref=ref(f"sku/r{number}"), id="", login="", shape=None)
            for number in range(4000)
        ]
        try:
            state.journal.record(state.run(), rows)
        except ProblemError as error:
            return error.problems[0].code
        return ""

    def test_size_limit(self, state: State) -> None:
        """F-STA-05: a file that may not grow is a full disk."""
        state.hold("a")
        before = state.rows("SELECT count(*), max(digest) FROM event")
        size = sum(path.stat().st_size for path in state.path.parent.iterdir())
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100_000, limits[1]))
        try:
            assert self.fill(state) == "state_disk_full"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert len(read_world(state.database).recorded) == 1
        assert state.rows("SELECT count(*), max(digest) FROM event") != [(0, None)]
        assert state.rows("SELECT count(*) FROM event")[0][0] - before[0][0] <= 1
        assert check(state.path) == ()
        assert self.fill(state) == ""
        assert check(state.path) == ()

    @privileges.needs(privileges.mounts)
    def test_small_disk(self, tmp_path: Path) -> None:
        """F-STA-05: the same on a real disk of two megabytes, filled to the brim."""
        disk = tmp_path / "disk"
        disk.mkdir()
        tmpfs = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(disk)]
        subprocess.run(tmpfs, check=True)
        try:
            path = disk / "state" / "gpuaas.db"
            with Database.create(path, state_id=STATE_ID, now=START) as database:
                state = State(path=path, database=database)
                state.hold("a")
                assert self.fill(state) == "state_disk_full"
                assert state.claim_states() == {"claim-a": "held"}
            assert check(path) == ()
            with pytest.raises(OSError, match="No space"), (disk / "brim").open("wb") as brim:
                while True:
                    brim.write(b"x" * 4096)
                    brim.flush()
            other = disk / "other" / "gpuaas.db"
            with pytest.raises(ProblemError) as caught:
                Database.create(other, state_id="x", now=START)
            assert caught.value.problems[0].code == "state_disk_full"
            assert not other.exists()
            assert code_of(path, write=False) == ""
        finally:
            subprocess.run(["umount", str(disk)], check=True)


@privileges.needs(privileges.mounts)
def test_read_only_disk(closed: Path) -> None:
    """F-STA-09: on a read-only disk the state can be read, and writing is refused."""
    folder = closed.parent
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        assert code_of(closed, write=False) == ""
        assert code_of(closed, write=True) == "state_read_only"
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_readers_do_not_wait(state: State) -> None:
    """F-STA-08: who only reads neither waits for a write nor sees half of it."""
    state.hold("a")
    with state.database.transaction("observe") as connection:
        connection.execute("UPDATE claim SET problem = 'under way'")
        with Database.open(state.path, write=False) as reader:
            assert read_world(reader).claims[0].problem == ""
