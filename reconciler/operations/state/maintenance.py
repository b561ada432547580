"""`state …`: make, check, copy and restore the database, and remove a dead holder's lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from reconciler.model.moment import format_moment
from reconciler.model.problem import Problem, refuse
from reconciler.model.records import dataclass
from reconciler.model.state.lock import LockHolder
from reconciler.model.state.snapshot import Snapshot
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import locking, writing
from reconciler.operations.open import open_fleet
from reconciler.operations.specs import read_desired
from reconciler.operations.state.init import make_state
from reconciler.operations.state.replicate import engine_of
from reconciler.store.backup import maintenance as stored
from reconciler.store.backup.litestream import forget_position
from reconciler.store.backup.maintenance import Beyond
from reconciler.store.backup.snapshots import snapshots
from reconciler.store.file.lock import left_behind


def state_init(folder: Path | None, new: bool) -> str:
    """Make a new, empty state; its id. A lost state is not a new one, so `new` must be said."""
    fleet = open_fleet(folder)
    if not new:
        raise refuse(
            "state_missing",
            "a new, empty state is made only when asked for by --new",
            "if there was a state before, bring it back: gpuaas state restore FILE, else rebuild",
        )
    return make_state(fleet)


def state_check(folder: Path | None) -> tuple[Problem, ...]:
    """Everything wrong with the database file, its schema, its guards and its chain of events."""
    return stored.check(open_fleet(folder).database_file)


def state_backup(folder: Path | None, file: Path) -> None:
    """A complete copy, made while others read and write. Raises ProblemError `backup_exists`."""
    stored.backup(open_fleet(folder).database_file, file)


def state_snapshots(folder: Path | None) -> tuple[Snapshot, ...]:
    """The copies that applies have kept of the state as it was before them, the newest first."""
    return snapshots(open_fleet(folder).database_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """`source` is what was put in place; `kept` where the state before it is, if there was one."""

    source: str
    kept: Path | None


def state_restore(fleet: Fleet, which: str) -> Restored:
    """Put a checked copy in place: `latest` or a serial of the snapshots, or a file."""
    file = _named(fleet, which)
    with _replacing(fleet):
        kept = stored.restore(
            fleet.database_file,
            file,
            actor=fleet.actor,
            now=fleet.now(),
            beyond=_beyond(fleet, file.name),
        )
    return Restored(source=str(file), kept=kept)


def state_restore_replica(fleet: Fleet, to: str, at: datetime | None) -> Restored:
    """Put in place what Litestream has copied, as it was last or at a moment."""
    engine = engine_of(fleet, to)
    whence = engine.replica.shown + (f" as of {format_moment(at)}" if at else "")
    with _replacing(fleet):
        file = engine.fetch(format_moment(at) if at else "")
        try:
            kept = stored.restore(
                fleet.database_file,
                file,
                actor=fleet.actor,
                now=fleet.now(),
                beyond=_beyond(fleet, whence),
            )
        finally:
            engine.remove_fetched()
    return Restored(source=whence, kept=kept)


def _beyond(fleet: Fleet, whence: str) -> Beyond:
    """With every node of the specs, as far as they can be read: one may be newer than the copy."""
    posix = fleet.settings.posix
    return Beyond(
        whence=whence,
        nodes=tuple(node.ref.name for node in read_desired(fleet).of("node")),
        first_uid=posix.first_uid,
        first_gid=posix.first_gid,
    )


@contextmanager
def _replacing(fleet: Fleet) -> Iterator[None]:
    """The lock on a state that may be lost with its folder."""
    fleet.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locking(fleet, "state restore"):
        yield
        forget_position(fleet.database_file)


def _named(fleet: Fleet, which: str) -> Path:
    if which != "latest" and not (which.isascii() and which.isdecimal()):
        return Path(which)
    for one in snapshots(fleet.database_file):
        if which == "latest" or one.serial == int(which):
            return Path(one.path)
    raise refuse(
        "not_found",
        f"no snapshot of state #{which} was kept" if which != "latest" else "no snapshot was kept",
        "see those that were: gpuaas state snapshots; a file of that name is ./" + which,
    )


def state_unlock(folder: Path | None, id_: str) -> LockHolder:
    """Forget a dead holder of the lock, which an event says; who it was.

    Raises ProblemError `state_locked` while a holder lives, `lock_other` if `id_` is of another
    lock, `state_not_locked` where there is none.
    """
    fleet = open_fleet(folder)
    dead = left_behind(fleet.state / "lock", id_)
    with writing(fleet, "state unlock"):
        return dead
