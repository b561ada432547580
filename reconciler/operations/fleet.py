"""The fleet at hand: its settings, its state folder, the clock and who is acting.

Loaded by every command, so it loads only what every command needs.
"""

from __future__ import annotations

import gc
import getpass
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from reconciler import shipped
from reconciler.model.canonical import text_digest
from reconciler.model.codec import decode, encode
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.state.event import Actor
from reconciler.model.state.lock import NO_PATIENCE, LockPatience
from reconciler.specs.read.library import find_folder, has_own_root, read_settings
from reconciler.store.cache import SqliteCache
from reconciler.store.file.database import Database

Clock = Callable[[], datetime]

LONGEST_LOGIN = 256
DEFAULT_STATE, CACHE = "state", "cache.db"
SETTINGS = "settings"
"""The space of remembered settings in the cache."""


def utc_now() -> datetime:
    return datetime.now(UTC)


def nobody_leaves() -> bool:
    """A wish to stop that never comes, where a signal ends the command itself."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything an operation needs to open a door. Opening it reads gpuaas.yaml and no more.

    `tree` is where specs are read from, if that is not the fleet's own folder: exactly one commit
    that nobody works in. `patience` is for others who write just now. `leaving` tells whether
    somebody wants nothing more to begin: what changes nothing, as a look, ends then. `wanted` tells
    what the specs name, for those who load no specs themselves: it is asked only where the state
    does not know a name.
    """

    settings: Settings
    actor: Actor
    now: Clock = field(default=utc_now)
    tree: str = ""
    patience: LockPatience = NO_PATIENCE
    leaving: Callable[[], bool] = field(default=nobody_leaves, compare=False)
    wanted: Callable[[Fleet], frozenset[Ref]] = field(
        default=lambda fleet: frozenset(), compare=False
    )

    @property
    def folder(self) -> Path:
        return Path(self.settings.folder)

    @property
    def specs(self) -> Settings:
        """The settings by which specs are read: paths of them are relative to where they lie."""
        return replace(self.settings, folder=self.tree) if self.tree else self.settings

    @property
    def state(self) -> Path:
        return self.folder / self.settings.state

    @property
    def database_file(self) -> Path:
        return self.state / "gpuaas.db"

    @contextmanager
    def cache(self) -> Iterator[SqliteCache]:
        with closing(SqliteCache(self.state / CACHE)) as cache:
            yield cache

    @contextmanager
    def reading(self) -> Iterator[Database]:
        with Database.open(self.database_file, write=False) as database:
            yield database


def os_login() -> str:
    """The OS user; a user id without a name is told by its number. The environment may lie."""
    try:
        name = os.fsencode(getpass.getuser()).decode("utf-8", "backslashreplace")
        return name[:LONGEST_LOGIN]
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def recall_fleet(folder: Path | None = None) -> Fleet | None:
    """The fleet of `folder`, or of the working directory or the nearest folder above it.

    None if its settings are not known by their content, and so must be read and checked first.
    Raises ProblemError `settings_missing`.
    """
    root = find_folder(folder or Path.cwd())
    key = settings_key(read_settings(root))
    with closing(SqliteCache(root / DEFAULT_STATE / CACHE)) as cache:
        row = cache.get_many(SETTINGS, [key]).get(key)
    if row is None:
        return None
    settings = decode(Settings, {**json.loads(row), "folder": str(root)})
    return (
        Fleet(settings=settings, actor=Actor(name=os_login())) if has_own_root(settings) else None
    )


def remember_settings(fleet: Fleet, content: bytes) -> None:
    """For `recall_fleet`, which looks where a fleet keeps its state unless it says otherwise."""
    if fleet.state == fleet.folder / DEFAULT_STATE:
        row = json.dumps(encode(fleet.settings))
        with fleet.cache() as cache:
            cache.put_many(SETTINGS, {settings_key(content): row})


def settings_key(content: bytes) -> str:
    """Everything that settings are made from: their text, and the program with its schemas."""
    return text_digest(f"{shipped.stamp()}\n{sha256(content).hexdigest()}")


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
