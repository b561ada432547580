"""The fleet at hand: its settings, its state folder, the clock and who is acting."""

from __future__ import annotations

import gc
import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from reconciler import shipped
from reconciler.model.event import Actor
from reconciler.model.settings import Settings
from reconciler.specs.library import find_folder, load_settings
from reconciler.store.cache import SqliteCache
from reconciler.store.database import Database, Opening
from reconciler.store.journal import Journal
from reconciler.store.lock import StateLock

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything an operation needs to open a door. Opening it reads gpuaas.yaml and no more."""

    settings: Settings
    actor: Actor
    now: Clock = field(default=utc_now)

    @property
    def folder(self) -> Path:
        return Path(self.settings.folder)

    @property
    def state(self) -> Path:
        return self.folder / self.settings.state

    @property
    def database_file(self) -> Path:
        return self.state / "gpuaas.db"

    @contextmanager
    def cache(self) -> Iterator[SqliteCache]:
        cache = SqliteCache(self.state / "cache.db")
        try:
            yield cache
        finally:
            cache.close()

    @contextmanager
    def reading(self) -> Iterator[Database]:
        with Database.open(self.database_file, write=False) as database:
            yield database

    @contextmanager
    def writing(self, command: str) -> Iterator[Journal]:
        """The journal, under the lock. Raises ProblemError `state_locked`, `state_missing`, …"""
        # Before a lock file is made: a state that is missing, damaged or too new has no writer.
        Database.open(self.database_file, write=False, opening=Opening(older_ok=True)).close()
        with (
            StateLock(self.state / "lock", actor=self.actor.name, command=command) as lock,
            Database.open(self.database_file, write=True) as database,
        ):
            journal = Journal(database, self.actor, self.now)
            if lock.left_behind is not None:
                journal.take_over_lock(str(lock.left_behind))
            yield journal


def open_fleet(folder: Path | None = None) -> Fleet:
    """The fleet of `folder`, or of the working directory or the nearest folder above it.

    Raises ProblemError `settings_missing` or `settings_invalid`.
    """
    root = find_folder(folder or Path.cwd())
    settings = load_settings(root, shipped.schemas()["settings"])
    return Fleet(settings=settings, actor=Actor(name=os_login()))


def os_login() -> str:
    """The OS user; a user id without a name is told by its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


@contextmanager
def without_collector() -> Iterator[None]:
    """Big loads make no cyclic garbage; the collector would walk them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
