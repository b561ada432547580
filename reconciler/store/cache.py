"""The document cache in a file of its own beside the state; losing it does no harm.

Every failure here means "not cached": a damaged file is removed and made again, one that cannot
be written is done without.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from reconciler.model.spec.document import FileStamp

SIZE_LIMIT = 1 << 30
BATCH = 10_000

_TABLES = (
    "CREATE TABLE IF NOT EXISTS text (space TEXT, key TEXT, text TEXT, PRIMARY KEY (space, key))"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS stamp (file TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER,"
    " ctime_ns INTEGER, inode INTEGER, digest TEXT) WITHOUT ROWID",
)
_DAMAGE = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR"})
"""SQLite's names for a broken page, no database at all, and tables that are not ours."""

Work = Callable[[sqlite3.Connection], None]


class SqliteCache:
    """A DocumentCache. The file is made when something is first kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def get_many(self, space: str, keys: Iterable[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}

        def read(connection: sqlite3.Connection) -> None:
            for some in _batches(keys):
                rows = connection.execute(
                    "SELECT text.key, text.text FROM json_each(?) AS wanted CROSS JOIN text"
                    " WHERE space = ? AND text.key = wanted.value",
                    (json.dumps(some), space),
                )
                found.update(rows)

        return found if self._try(read, make=False) else {}

    def put_many(self, space: str, rows: Mapping[str, str]) -> None:
        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT OR REPLACE INTO text VALUES (?, ?, ?)",
                ((space, key, text) for key, text in sorted(rows.items())),
            )

        if rows:
            self._try(_within_size(write), make=True)

    def keep_only(self, space: str, keys: Iterable[str]) -> None:
        """Forget what else there is in that space; asked of thousands it costs one count."""
        wanted = sorted(set(keys))
        known = "SELECT count(*) FROM text WHERE space = ?"
        others = "DELETE FROM text WHERE space = ? AND key NOT IN (SELECT value FROM json_each(?))"

        def forget(connection: sqlite3.Connection) -> None:
            if connection.execute(known, (space,)).fetchone()[0] > len(wanted):
                connection.execute(others, (space, json.dumps(wanted)))

        self._try(forget, make=False)

    def stamps(self) -> Mapping[str, tuple[FileStamp, str]]:
        found: dict[str, tuple[FileStamp, str]] = {}

        def read(connection: sqlite3.Connection) -> None:
            rows = connection.execute(
                "SELECT file, digest, size, mtime_ns, ctime_ns, inode FROM stamp"
            )
            found.update((row[0], (FileStamp(*row[2:]), row[1])) for row in rows)

        return found if self._try(read, make=False) else {}

    def put_stamps(
        self, rows: Mapping[str, tuple[FileStamp, str]], gone: Iterable[str] = ()
    ) -> None:
        missing = [(file,) for file in gone]

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM stamp WHERE file = ?", missing)
            connection.executemany(
                "INSERT OR REPLACE INTO stamp VALUES (?, ?, ?, ?, ?, ?)",
                (
                    (file, stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, digest)
                    for file, (stamp, digest) in sorted(rows.items())
                ),
            )

        if rows or missing:
            self._try(_within_size(write), make=True)

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _try(self, work: Work, *, make: bool) -> bool:
        """Whether `work` was done. After damage it is tried once more, on a new file."""
        for _ in range(2):
            try:
                connection = self._connect(make=make)
                if connection is None:
                    return False
                with connection:
                    work(connection)
                return True
            except (sqlite3.Error, OSError) as error:
                self.close()
                if getattr(error, "sqlite_errorname", "") not in _DAMAGE:
                    return False
                self._remove()
        return False

    def _connect(self, *, make: bool) -> sqlite3.Connection | None:
        if self._connection is None:
            if not _is_ours(self._path.parent):
                return None
            if not self._path.exists():
                if not make:
                    return None
                self._path.touch(mode=0o600)
            self._connection = sqlite3.connect(self._path, timeout=1.0)
            # A crash may cost the cache; it never costs time to guard it.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = OFF")
            for table in _TABLES:
                self._connection.execute(table)
        return self._connection

    def _remove(self) -> None:
        with suppress(OSError):
            for suffix in ("", "-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder of this account: in another's a file of ours would be in the way, and
    what lies there is nothing to believe.
    """
    with suppress(OSError):
        found = folder.stat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _within_size(write: Work) -> Work:
    """Nobody tells the cache what is no longer of use: when it grew too large it starts anew."""

    def bounded(connection: sqlite3.Connection) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        if pages * size > SIZE_LIMIT:
            connection.execute("DELETE FROM text")
        write(connection)

    return bounded


def _batches(keys: Iterable[str]) -> Iterator[Sequence[str]]:
    rest = iter(keys)
    while some := list(islice(rest, BATCH)):
        yield some
