"""From every schema there ever was to this one: with a backup, whole, killed or out of room."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.problem import ProblemError
from reconciler.model.state.event import Event, EventType
from reconciler.store import chain
from reconciler.store.backup.maintenance import check, check_copy
from reconciler.store.file.database import Database, Opening
from reconciler.store.file.private_copy import open_private_copy
from reconciler.store.file.schema import Schema, shipped_schema, version_of
from tests import privileges
from tests.store.records import START, STATE_ID

ROOT = Path(__file__).parents[2]
LATEST = shipped_schema().version
ROWS: Mapping[str, str] = {
    "claim": "id, allocation_id, ref, node, slot, shape, state, since, tenant, project, event",
    "event": 'sequence, at, type, actor, ref, "commit", before, after, reason, run, digest',
    "incarnation": "ref, count",
    "login": "login, allocation_id, ref, since",
    "observation": "node, at, facts, digest, problem, message, unreachable_since",
    "resource": "ref, digest, basis, file, applied_at, phase, id, login, node, slots, normal,"
    " facts",
    "run": "number, id, actor, fingerprint, state, started, ended",
    "step": "run, id, wave, ref, verb, node, state, started",
    "waiting": "ref, since",
}
"""What the first schema could hold, and every later one still has to."""


def schema(version: int) -> Schema:
    """As it was shipped then: migrations are never edited."""
    return Schema(migrations=dict(list(shipped_schema().migrations.items())[:version]))


def make(path: Path, version: int) -> Path:
    """A state as a program of that schema left it, with an allocation on each of 20 nodes."""
    opening = Opening(schema=schema(version))
    Database.create(path, state_id=STATE_ID, now=START, opening=opening).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        insert(connection, "run", (1, "run-000001", "ana", "sha256:f", "done", "t", "t"))
        insert(connection, "waiting", ("allocation/vision/late", "2026-11-01T12:00:00Z"))
        for number in range(20):
            allocate(connection, f"a{number}", f"gpu{number:02}")
        connection.execute("COMMIT")
    return path


def allocate(connection: sqlite3.Connection, name: str, node: str) -> None:
    ref, id = f"allocation/vision/{name}", f"id-{name}"
    claimed, _ = chain.append(
        connection,
        [
            Event(type=EventType.CLAIMED, actor="ana", ref=ref, at="2026-11-01T12:00:00Z"),
            Event(type=EventType.RECORDED, actor="ana", ref=ref, at="2026-11-01T12:00:01Z"),
        ],
    )
    insert(
        connection,
        "claim",
        (id, id, ref, node, "s0", "gpu_slice", "held", "t", "corp", "vision", claimed),
    )
    more = {"kind": "allocation", "project": "vision", "name": name, "commit": "3f9c2e1"}
    row = (ref, "sha256:d", "sha256:b", "a.yaml", "t", "active", id, f"{name}-login", node)
    insert(connection, "resource", (*row, '["s0"]', "{}", "{}"), **more, generation=1, protect=0)
    insert(connection, "step", ("run-000001", f"step-{name}", 1, ref, "x", node, "done", "t"))
    insert(connection, "login", (f"{name}-login", id, ref, "t"))
    insert(connection, "incarnation", (ref, 1))
    insert(connection, "observation", (node, "2026-11-01T12:00:02Z", "{}", "sha256:o", "", "", ""))


FILLED: Mapping[str, Mapping[str, Any]] = {
    "run": {"desired_digest": "", "serial": 1, "commit": "", "progress": "t"},
    "step": {"order": "provide", "work": ""},
    "resource": {"problem": "", "shape": "gpu_slice"},
}


def insert(
    connection: sqlite3.Connection, table: str, values: tuple[Any, ...], **more: Any
) -> None:
    given = dict(zip(ROWS[table].split(", "), values, strict=True)) | FILLED.get(table, {}) | more
    names = ", ".join(name if name[0] == '"' else f'"{name}"' for name in given)
    marks = ", ".join("?" * len(given))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(given.values()))


def rows(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return {
            table: connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2").fetchall()
            for table, columns in ROWS.items()
        }


def version(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return version_of(connection)


def code(path: Path, *, write: bool) -> str:
    try:
        Database.open(path, write=write).close()
    except ProblemError as error:
        assert all(problem.hint for problem in error.problems)
        return error.problems[0].code
    return ""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Path]:
    """A state of every schema before this one; not to be changed."""
    folder = tmp_path_factory.mktemp("older")
    return {n: make(folder / str(n) / "state/gpuaas.db", n) for n in range(1, LATEST)}


@pytest.mark.parametrize("before", range(1, LATEST))
def test_from_every_schema_before(older: Mapping[int, Path], tmp_path: Path, before: int) -> None:
    """F-STA-10: no row is lost, what was is kept as a file, and the result is sound."""
    path = copy_of(older[before], tmp_path)
    had = rows(path)
    assert code(path, write=False) == "state_older"
    assert code(path, write=True) == ""
    assert (version(path), rows(path), check(path)) == (LATEST, had, ())
    (backup,) = (path.parent / "backups").iterdir()
    assert backup.name == f"gpuaas-schema{before}-1.db"
    assert (version(backup), rows(backup), check_copy(backup)) == (before, had, ())
    assert backup.stat().st_mode & 0o777 == 0o600
    assert code(path, write=True) == ""
    assert len(list((path.parent / "backups").iterdir())) == 1


@pytest.mark.parametrize("before", range(1, LATEST))
def test_a_private_copy_of_every_schema_before(
    older: Mapping[int, Path], tmp_path: Path, before: int
) -> None:
    """It is read by this version with nothing beside it, and wherever it lies."""
    path = copy_of(older[before], tmp_path)
    had = rows(path)
    with open_private_copy(path) as database:
        assert not database.writable
    assert (version(path), rows(path)) == (LATEST, had)
    assert not (path.parent / "backups").exists()


@pytest.mark.parametrize("stop", [*(f"migrate.before#{n}" for n in (1, 2, 3)), "copy.during"])
def test_killed_in_the_middle(older: Mapping[int, Path], tmp_path: Path, stop: str) -> None:
    """F-STA-10: whole migrations stand or none of it; the next to open it goes on from there."""
    before = LATEST - 3
    path = copy_of(older[before], tmp_path)
    had = rows(path)
    assert open_in_a_process(path, stop) == -9
    done = int(stop.partition("#")[2] or 1) - 1
    assert (version(path), rows(path), check_copy(path)) == (before + done, had, ())
    assert code(path, write=False) == "state_older"
    assert code(path, write=True) == ""
    assert (version(path), rows(path), check(path)) == (LATEST, had, ())
    kept = {one.name for one in (path.parent / "backups").iterdir()}
    assert f"gpuaas-schema{before}-1.db" in kept
    assert len(kept) == (1 if stop == "copy.during" else 2), "a copy for each try"


def open_in_a_process(path: Path, stop: str) -> int:
    script = (
        "import sys; from pathlib import Path\n"
        "from reconciler.store.file.database import Database\n"
        "Database.open(Path(sys.argv[1]), write=True)\n"
    )
    environment = {**os.environ, "GPUAAS_STOP_AT": stop, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", script, str(path)], env=environment).returncode


@privileges.needs(privileges.mounts)
def test_a_full_disk(older: Mapping[int, Path], tmp_path: Path) -> None:
    """F-STA-05 F-STA-10: however little room there is, it is done or it was never begun."""
    source = older[LATEST - 1]
    size = source.stat().st_size
    outcomes = set()
    for room in (0, 16_384, size // 2, size + 4096, size + 40_960, size + 81_920, 3 * size):
        with small_disk(tmp_path / "disk", 4 * size + 1_048_576) as disk:
            path = copy_of(source, disk)
            had = rows(path)
            brim = fill(disk, room)
            outcome = code(path, write=True)
            outcomes.add(outcome)
            assert outcome in ("", "state_disk_full"), room
            brim.unlink()
            assert (version(path) == LATEST) == (outcome == ""), room
            assert (rows(path), check_copy(path)) == (had, ())
            assert code(path, write=True) == ""
            assert (version(path), rows(path), check(path)) == (LATEST, had, ())
    assert outcomes == {"", "state_disk_full"}


def test_a_few_backups_stay(older: Mapping[int, Path], tmp_path: Path) -> None:
    """F-ANS-12: a migration that fails each time does not fill the disk with copies."""
    path = copy_of(older[LATEST - 1], tmp_path)
    migrations = {**shipped_schema().migrations, "9999_broken": "INSERT INTO nowhere VALUES (1);"}
    for _ in range(14):
        with pytest.raises(ProblemError):
            Database.open(path, write=True, opening=Opening(schema=Schema(migrations=migrations)))
    kept = list((path.parent / "backups").iterdir())
    assert len(kept) == 10
    assert all(check_copy(one) == () for one in kept[:2])


def copy_of(source: Path, folder: Path) -> Path:
    shutil.copytree(source.parent, folder / "state")
    (folder / "state").chmod(0o700)
    return folder / "state" / source.name


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    options = f"size={size},mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    subprocess.run(mount, check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path, room: int) -> Path:
    """All of the disk but about so much."""
    brim = disk / "brim"
    status = os.statvfs(disk)
    brim.write_bytes(b"x" * max(0, status.f_bavail * status.f_frsize - room))
    return brim
