"""The state database: made once, opened with every check, and never made again by itself.

A missing, damaged, foreign or newer file is refused and left as it is. Only `create` makes one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType

from reconciler.model.moment import format_moment
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.state.event import Event, EventType
from reconciler.stops import around, reach
from reconciler.store import chain
from reconciler.store.backup.copy import back_up
from reconciler.store.file.connection import PARTIAL, connect, has_log, remove, set_modes
from reconciler.store.file.errors import LOST_OR_NEW, damaged, wording
from reconciler.store.file.integrity import insist, insist_on_log
from reconciler.store.file.lock import alone
from reconciler.store.file.place import check_file, check_place
from reconciler.store.file.schema import (
    APPLICATION_ID,
    Schema,
    migrate,
    shipped_schema,
    version_of,
)

SQLITE_MAGIC = b"SQLite format 3\0"
NO_STATE_YET = frozenset({".gitkeep", ".gitignore"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How to open the database.

    `newer_ok` and `older_ok` let a reader look into what another version wrote; `anywhere` opens a
    copy that is not in a state folder, `to_check` one that is about to be checked in full. `mounts`
    and `schema` are what the system and this version say, unless told otherwise.
    """

    newer_ok: bool = False
    older_ok: bool = False
    anywhere: bool = False
    to_check: bool = False
    mounts: str | None = None
    schema: Schema | None = None


class Database:
    """One open connection to the state. Times are told to it, it never asks the clock."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, writable: bool) -> None:
        self.path = path
        self.connection = connection
        self.writable = writable
        self._version = version_of(connection)

    @classmethod
    def create(
        cls, path: Path, *, state_id: str, now: datetime, opening: Opening | None = None
    ) -> Database:
        """Make a new state, whole or not at all, in a folder that holds nothing but a cache.

        Raises ProblemError `state_exists`, `state_unsafe_place`, `state_disk_full`, …
        """
        opening = opening or Opening()
        folder, partial = path.parent, path.with_name(path.name + PARTIAL)
        with wording(path):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_leftovers(folder, partial)
            folder.chmod(0o700)
            check_place(folder, opening.mounts)
        with wording(path), alone(folder):
            _refuse_leftovers(folder, partial)
            try:
                remove(partial)
                _build(partial, opening.schema or shipped_schema(), state_id, format_moment(now))
                with around("create"):
                    partial.rename(path)
            finally:
                with suppress(OSError):
                    remove(partial)
        return cls.open(path, write=True, opening=opening)

    @classmethod
    def open(cls, path: Path, *, write: bool, opening: Opening | None = None) -> Database:
        """Open the state; a writer first brings an older one up to date, after a backup."""
        opening = opening or Opening()
        _refuse_wrong_file(path)
        with wording(path), _telling_what_is_no_database(path):
            if not opening.anywhere:
                check_place(path.parent, opening.mounts)
                check_file(path)
            # Closing a connection that may write would merge the log of a crash, or of another
            # database, into the file: everything is looked at before there is one.
            reader = connect(path, write=False)
            try:
                _examine(reader, path, opening, write=write)
            except BaseException:
                reader.close()
                raise
            if not write:
                return cls(path, reader, writable=False)
            reader.close()
            return cls(path, _connect_to_write(path, opening), writable=True)

    @contextmanager
    def transaction(self, what: str) -> Iterator[sqlite3.Connection]:
        """All or nothing, and durable when it is left. Raises ProblemError if it could not be.

        `what` names its stops.
        """
        with wording(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                reach(f"{what}.before")
                self.connection.execute("COMMIT")
                reach(f"{what}.after")
            except BaseException:
                # A full disk may have ended the transaction already.
                with suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Reads in here see one moment, whatever is written meanwhile.

        Raises ProblemError `state_newer` if a newer version has changed the schema since.
        """
        with wording(self.path):
            self.connection.execute("BEGIN")
            try:
                if (found := version_of(self.connection)) != self._version:
                    raise _newer(self.path, found, self._version)
                yield self.connection
            finally:
                with suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _refuse_leftovers(folder: Path, partial: Path) -> None:
    for path in sorted(folder.iterdir()):
        ours = path.name.startswith(("cache.db", partial.name))
        if not ours and path.name not in NO_STATE_YET:
            raise refuse(
                "state_exists",
                f"{path} is there already, so this is no place for a new state",
                "restore the state that was there, or name another folder in gpuaas.yaml",
            )


def _build(path: Path, schema: Schema, state_id: str, now: str) -> None:
    path.touch(mode=0o600, exist_ok=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, schema)
        set_modes(connection, path)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO state VALUES (1, ?, ?)", (state_id, now))
        made = Event(type=EventType.STATE_CREATED, actor="", at=now, after={"state": state_id})
        chain.append(connection, [made])
        connection.execute("COMMIT")


def _refuse_wrong_file(path: Path) -> None:
    if not path.exists():
        raise refuse(
            "state_missing",
            f"{path}: there is no state",
            LOST_OR_NEW,
        )
    if not path.is_file():
        raise refuse("state_foreign", f"{path} is no file", "name another folder in gpuaas.yaml")
    if path.stat().st_size == 0:
        raise damaged(path, "it is empty")


@contextmanager
def _telling_what_is_no_database(path: Path) -> Iterator[None]:
    """Looks into the file by itself only where SQLite has refused it.

    Closing a file takes away all locks of this process on it, those of SQLite's connections too.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") != "SQLITE_NOTADB":
            raise
        with path.open("rb") as file:
            head = file.read(len(SQLITE_MAGIC))
        if not head.strip(b"\0"):
            raise damaged(path, "it is empty") from error
        if head == SQLITE_MAGIC:
            raise
        raise refuse(
            "state_foreign",
            f"{path} is no SQLite database",
            "if it was the state: `gpuaas state restore FILE` from a backup",
        ) from error


def _examine(connection: sqlite3.Connection, path: Path, opening: Opening, *, write: bool) -> None:
    _check_identity(connection, path)
    _check_version(connection, path, opening, write=write)
    if opening.to_check:
        return
    if write or (opening.anywhere and has_log(path)):
        insist(connection, path)
    elif has_log(path):
        insist_on_log(connection, path)


def _connect_to_write(path: Path, opening: Opening) -> sqlite3.Connection:
    connection = connect(path, write=True)
    try:
        # SQLite opens a protected file for reading alone, and would say so much later.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        _upgrade(connection, path, opening.schema or shipped_schema())
        set_modes(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_identity(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise refuse(
            "state_foreign",
            f"{path} is a database of another program",
            "name the right file, or restore the state from a backup",
        )


def _check_version(
    connection: sqlite3.Connection, path: Path, opening: Opening, *, write: bool
) -> None:
    found = version_of(connection)
    known = (opening.schema or shipped_schema()).version
    if found > known and (write or not opening.newer_ok):
        raise _newer(path, found, known)
    if found < known and not write and not opening.older_ok:
        raise refuse(
            "state_older",
            f"{path} has schema {found}, this program works with schema {known}",
            "`gpuaas apply` brings it up to date, after a backup",
        )


def _newer(path: Path, found: int, known: int) -> ProblemError:
    return refuse(
        "state_newer",
        f"{path} has schema {found}, this program knows schema {known} at most",
        "use the newer version of gpuaas that wrote it",
    )


def _upgrade(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Back up, then migrate. Every try makes a copy of its own: none is ever written over."""
    found = version_of(connection)
    if found == schema.version:
        return
    back_up(connection, path, found)
    migrate(connection, schema)
