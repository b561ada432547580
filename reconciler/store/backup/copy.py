"""Copies: the database as one whole file, and the few that are made before a migration.

A copy bears its name only once all of it is on disk.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path

from reconciler.stops import reach
from reconciler.store.file.connection import PARTIAL, remove

BACKUPS = "backups"
MOST_BACKUPS = 10
"""Migrations are rare: these are as many tries of them."""


def copy(connection: sqlite3.Connection, target: Path) -> None:
    """All of a database at one moment as one file, 0600, or nothing under that name.

    Raises FileExistsError where something is, or is being written.
    """
    if target.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    partial = target.with_name(target.name + PARTIAL)
    alone = _begin(partial)
    try:
        with closing(sqlite3.connect(partial, isolation_level=None)) as copied:
            # Nothing is to be rolled back in there, and all of it is brought to disk at once.
            copied.execute("PRAGMA journal_mode = OFF")
            copied.execute("PRAGMA synchronous = OFF")
            connection.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")
        sync(partial)
        reach("copy.during")
        partial.rename(target)
        sync(target.parent)
    except BaseException:
        remove(partial)
        raise
    finally:
        os.close(alone)


def _begin(partial: Path) -> int:
    """An empty file, ours as long as this is open; what a crash has left of one is no obstacle."""
    writer = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(writer, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever was before us may have given the very file that we have opened its name by now.
        if not os.path.samestat(os.fstat(writer), os.lstat(partial)):
            raise BlockingIOError
        os.truncate(writer, 0)
    except (BlockingIOError, FileNotFoundError) as error:
        os.close(writer)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(partial)) from error
    return writer


def sync(path: Path) -> None:
    """Make sure that a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def back_up(connection: sqlite3.Connection, path: Path, schema: int) -> None:
    """Copy the state before its schema changes; the oldest of too many such copies go."""
    folder = path.parent / BACKUPS
    make_room(folder)
    before = sorted(folder.glob(f"{path.stem}-schema*.db"), key=lambda one: one.stat().st_mtime_ns)
    names = (f"{path.stem}-schema{schema}-{number}.db" for number in count(1))
    copy(connection, next(target for name in names if not (target := folder / name).exists()))
    drop(before, MOST_BACKUPS - 1)


def make_room(folder: Path) -> None:
    """Make the folder, without what a crash left half written."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.glob(f"*{PARTIAL}"):
        path.unlink(missing_ok=True)


def drop(before: Sequence[Path], keep: int) -> None:
    """All but the last `keep` of what was there, once there is a newer one: no clock is asked."""
    for old in before[: max(0, len(before) - keep)]:
        remove(old)
