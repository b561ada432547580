"""Snapshots: the state before each of the last applies, as whole files beside it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from reconciler.model.moment import format_moment
from reconciler.model.problem import refuse
from reconciler.model.state.snapshot import Snapshot
from reconciler.stops import around
from reconciler.store.backup.copy import copy, drop, make_room
from reconciler.store.file.connection import connect
from reconciler.store.file.database import Database
from reconciler.store.file.errors import FREE_SPACE, wording
from reconciler.store.retention.archive import digest_of
from reconciler.store.serial import serial

SNAPSHOTS = "snapshots"

_NAME = re.compile(r"(\d+)-(\d{8}T\d{6}Z)\.db")
_TIME = "%Y%m%dT%H%M%SZ"


def take_snapshot(database: Database, now: datetime, keep: int) -> None:
    """Keep the state as it is now, once for each serial, and no more than `keep` of them.

    Raises ProblemError `snapshot_failed`.
    """
    folder, connection = database.path.parent / SNAPSHOTS, database.connection
    try:
        number = serial(connection)
        before = _snapshots(folder)
        if any(of == number and _knows(one, database, number) for of, _, one in before):
            return
        with around("snapshot"):
            make_room(folder)
            copy(connection, folder / f"{number}-{now.strftime(_TIME)}.db")
        drop([one for _, _, one in before], keep - 1)
    except (sqlite3.Error, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        told = f"{folder}: the state could not be copied before the apply: {why}"
        raise refuse("snapshot_failed", told, FREE_SPACE) from error


def snapshots(path: Path) -> tuple[Snapshot, ...]:
    """Every snapshot of the state at `path`, the newest first, looked into as far as can be."""
    folder = path.parent / SNAPSHOTS
    with wording(folder):
        return tuple(_look(one, number, at) for number, at, one in reversed(_snapshots(folder)))


def _snapshots(folder: Path) -> list[tuple[int, datetime, Path]]:
    """(serial, moment, file) in order of time; what is not named like a snapshot is none."""
    return sorted(_named(folder), key=lambda one: (one[1], one[0]))


def _named(folder: Path) -> Iterator[tuple[int, datetime, Path]]:
    for path in folder.iterdir() if folder.is_dir() else ():
        if matched := _NAME.fullmatch(path.name):
            with suppress(ValueError):
                moment = datetime.strptime(f"{matched[2]}+0000", f"{_TIME}%z")
                yield int(matched[1]), moment, path


def _knows(path: Path, database: Database, number: int) -> bool:
    """Whether a snapshot is of this very history: after a restore numbers are given anew."""
    ours = digest_of(database.connection, database.path, number)
    with suppress(sqlite3.Error), closing(connect(path, write=False)) as copied:
        return ours != "" and digest_of(copied, database.path, number) == ours
    return False


def _look(path: Path, number: int, moment: datetime) -> Snapshot:
    size = path.stat().st_size
    found = Snapshot(path=str(path), serial=number, at=format_moment(moment), size=size)
    query = 'SELECT id, "commit" FROM run ORDER BY number DESC LIMIT 1'
    try:
        with closing(connect(path, write=False)) as connection:
            run, commit = connection.execute(query).fetchone() or ("", "")
    except sqlite3.Error as error:
        return replace(found, problem=str(error))
    return replace(found, run=run, commit=commit)
