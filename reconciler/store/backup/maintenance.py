"""Maintenance of the state: check it, back it up, put a backup in its place.

Nothing here repairs. What is found is told; what is replaced is kept under another name.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import IO

from reconciler.model.moment import format_moment
from reconciler.model.problem import Problem, ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.state.event import Actor, EventType
from reconciler.model.state.rebuilt import MARGIN
from reconciler.stops import reach
from reconciler.store import chain
from reconciler.store.backup.copy import copy, sync
from reconciler.store.backup.litestream import OBJECTS
from reconciler.store.file.connection import PARTIAL, connect, remove
from reconciler.store.file.consistency import UNSOUND
from reconciler.store.file.database import Database, Opening
from reconciler.store.file.errors import RECOVER, wording
from reconciler.store.file.integrity import insist
from reconciler.store.file.place import check_place
from reconciler.store.file.schema import (
    Schema,
    expected_objects,
    migrate,
    objects,
    shipped_schema,
    version_of,
)
from reconciler.store.retention import archive
from reconciler.store.tables import taints
from reconciler.store.transaction import EventDraft, Record
from reconciler.tries import tries

SHARED_BYTES = (510, 0x40000002)
"""Length and start of what every connection of SQLite locks, to share it, in the file."""

READERS_SECONDS, PAUSE = 5.0, 0.1
"""So long others may take to finish what they read."""

_NODES = (
    "SELECT name FROM resource WHERE kind = 'node'"
    " UNION SELECT node FROM claim WHERE state <> 'freed'"
)

_LOST_SINCE = (
    "SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM resource WHERE ref = value)"
    " AND NOT EXISTS (SELECT 1 FROM event l WHERE l.ref = value)"
    " AND NOT EXISTS (SELECT 1 FROM event l WHERE l.type = 'renamed'"
    " AND json_extract(l.before, '$.ref') = value)"
)
"""Of refs that were recorded last when their events moved to an archive."""


def check(path: Path, opening: Opening | None = None) -> tuple[Problem, ...]:
    """Everything that is wrong with the state, worst first; empty if it is sound.

    Raises ProblemError only for what cannot be looked into at all.
    """
    opening = replace(opening or Opening(), to_check=True)
    with (
        Database.open(path, write=False, opening=opening) as database,
        database.snapshot() as connection,
    ):
        found = tuple(
            Problem(code=code, message=message, hint=RECOVER)
            for code, message in _findings(connection, opening.schema or shipped_schema())
        )
        return found + tuple(_archived(connection, path))


def backup(path: Path, target: Path) -> None:
    """A whole, verified copy while others may be writing. Never writes over a file."""
    with Database.open(path, write=False) as database, wording(target):
        try:
            copy(database.connection, target)
        except FileExistsError as error:
            told = f"{error.filename} is there already"
            raise refuse("backup_exists", told, "choose another name") from error
    problems = check_copy(target)
    if problems:
        target.unlink()
        raise ProblemError(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """What a copy does not say: whence it comes, and of which fleet it is by now.

    Whatever `nodes` hold may be younger than the copy; tenants' numbers begin with `first_uid` and
    `first_gid`.
    """

    whence: str = ""
    nodes: tuple[str, ...] = ()
    first_uid: int = 1
    first_gid: int = 1


def restore(
    path: Path, source: Path, *, actor: Actor, now: datetime, beyond: Beyond | None = None
) -> Path | None:
    """Put a verified backup in the place of the state, under the lock.

    Returns the name under which the state before is kept; None if there was none. Whoever reads
    meanwhile sees the one or the other; only where the state is damaged nobody may. The restored
    state says in an event that it was, so that no plan made before is valid for it; it knows
    nothing of its hosts until they are asked, and gives no number that may have been given since.
    """
    beyond = beyond or Beyond()
    if not source.exists():
        raise refuse("state_missing", f"{source} is not there", "name a file that a backup wrote")
    problems = check_copy(source)
    if problems:
        raise ProblemError(problems)
    partial = path.with_name(path.name + PARTIAL)
    with wording(path):
        check_place(path.parent)
        remove(partial)
        try:
            with closing(connect(source, write=False)) as connection:
                _refuse_stranger(connection, path)
                copy(connection, partial)
            with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
                if version_of(connection) < shipped_schema().version:
                    migrate(connection, shipped_schema())
                record = Record(connection=connection, actor=actor.name, at=format_moment(now))
                _say_so(record, replace(beyond, whence=beyond.whence or source.name), now)
            reach("restore.before")
            kept = (_write_over if _is_sound(path) else _exchange)(path, partial)
            reach("restore.after")
        finally:
            with suppress(OSError):
                remove(partial)
    Database.open(path, write=True).close()
    return kept


def check_copy(path: Path) -> tuple[Problem, ...]:
    """Like `check`, for a file that may lie anywhere, and be of an earlier version."""
    opening = Opening(anywhere=True, older_ok=True, to_check=True)
    with (
        Database.open(path, write=False, opening=opening) as database,
        database.snapshot() as connection,
    ):
        return tuple(
            Problem(code=code, message=f"{path}: {message}", hint=RECOVER)
            for code, message in _integrity(connection)
        )


def _findings(connection: sqlite3.Connection, schema: Schema) -> Iterator[tuple[str, str]]:
    yield from _integrity(connection)
    yield from _schema(connection, schema)
    for query, meaning in UNSOUND:
        for (what,) in connection.execute(query):
            yield "state_damaged", f"{what}: {meaning}"


def _archived(connection: sqlite3.Connection, path: Path) -> Iterator[Problem]:
    """Every archive against the chain; and what they say was recorded and nothing took back."""
    last: dict[str, str] = {}
    for one in archive.archives(connection, path):
        try:
            for row, _ in archive.read(one):
                event = dict(zip(archive.NAMES, row, strict=True))
                if event["type"] == EventType.RENAMED:
                    last.pop(json.loads(event["before"])["ref"], None)
                last[event["ref"]] = event["type"]
        except ProblemError as error:
            yield from error.problems
            return
    recorded = [ref for ref, type_ in last.items() if type_ == EventType.RECORDED]
    for (ref,) in connection.execute(_LOST_SINCE, (json.dumps(recorded),)):
        meaning = f"{ref}: recorded, never forgotten, and not there"
        yield Problem(code="state_damaged", message=meaning, hint=RECOVER)


def _integrity(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    for (found,) in connection.execute("PRAGMA integrity_check(20)"):
        if found != "ok":
            yield "state_damaged", str(found)
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield "state_damaged", f"a row of {table} refers to a row of {parent} that is not there"
    broken = chain.verify(connection)
    if broken:
        yield "chain_broken", broken


def _schema(connection: sqlite3.Connection, schema: Schema) -> Iterator[tuple[str, str]]:
    """A guard that was dropped cannot refuse anything any more; that it is gone can be seen."""
    expected = expected_objects(schema)
    found = {key: sql for key, sql in objects(connection).items() if key not in OBJECTS}
    for key in sorted(expected.keys() | found.keys()):
        what = " ".join(key)
        if key not in found:
            yield "state_damaged", f"{what} was dropped"
        elif key not in expected:
            yield "state_damaged", f"{what} is none of ours"
        elif found[key] != expected[key]:
            yield "state_damaged", f"{what} was changed"


def _refuse_stranger(backup_: sqlite3.Connection, path: Path) -> None:
    """A backup of another fleet would make every host of this one a stranger."""
    try:
        with Database.open(path, write=False, opening=Opening(older_ok=True)) as database:
            ours = database.connection.execute("SELECT state_id FROM state").fetchone()
    except (ProblemError, sqlite3.Error):
        return
    theirs = backup_.execute("SELECT state_id FROM state").fetchone()
    if ours != theirs:
        raise refuse(
            "state_foreign",
            f"the backup is of state {theirs[0]}, {path} is state {ours[0]}",
            "choose a backup of this state",
        )


def _say_so(record: Record, beyond: Beyond, now: datetime) -> None:
    """What was done after the copy was made is unknown: numbers, allocations, and proofs."""
    connection, reason = record.connection, f"restored from {beyond.whence}"
    connection.execute("BEGIN")
    # What hosts said and were given before the backup says nothing about what they hold now.
    connection.execute("DELETE FROM observation")
    connection.execute("UPDATE resource SET basis = '' WHERE id <> '' AND phase = 'active'")
    first = {"uid": beyond.first_uid, "gid": beyond.first_gid}
    given = taints.highest(connection)
    least = {kind: max(given[kind], number - 1) + MARGIN for kind, number in first.items()}
    taints.raise_floors(connection, {**least, "incarnation": int(now.timestamp())})
    nodes = {name for (name,) in connection.execute(_NODES)} | set(beyond.nodes)
    taints.begin(record, taints.both(nodes, reason, record.at))
    record.write(EventDraft(type=EventType.STATE_RESTORED, reason=reason))
    connection.execute("COMMIT")


def _is_sound(path: Path) -> bool:
    try:
        opening = Opening(older_ok=True, newer_ok=True)
        with Database.open(path, write=False, opening=opening) as database:
            insist(database.connection, path)
    except ProblemError:
        return False
    return True


def _write_over(path: Path, partial: Path) -> Path:
    """As one change to a state that stays the same file, for readers and programs that copy it."""
    kept = _free_name(path)
    with closing(connect(path, write=True)) as state, closing(connect(partial, write=False)) as new:
        copy(state, kept)
        reach("restore.during")
        new.backup(state)
    return kept


def _exchange(path: Path, partial: Path) -> Path | None:
    """A file that is not there, or not sound, is put aside as it is, with its log."""
    kept = _free_name(path) if path.exists() else None
    with _alone(path):
        for suffix in ("-wal", "-shm", ""):
            part = path.with_name(path.name + suffix)
            if kept and part.exists():
                part.rename(kept.with_name(kept.name + suffix))
        reach("restore.during")
        partial.rename(path)
    sync(path.parent)
    return kept


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.before-restore-{number}") for number in count(1))
    return next(name for name in names if not name.exists())


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else has the damaged state open, and nobody opens it meanwhile.

    Whoever went on with the file that was put aside would write to no state any more. Every
    connection of SQLite shares a lock on these bytes.
    """
    if not path.exists():
        yield
        return
    with path.open("r+b") as file:
        for _ in tries(READERS_SECONDS, rest=PAUSE):
            if _taken(file):
                break
        else:
            raise refuse(
                "state_in_use",
                f"{path}: another process has it open",
                "end it first; what copies the state, by: systemctl stop gpuaas-replicate",
            )
        yield


def _taken(file: IO[bytes]) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *SHARED_BYTES)
    except (BlockingIOError, PermissionError):
        return False
    return True
