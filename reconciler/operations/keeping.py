"""`state …`: make, check, copy and bring back the one database, and end a dead holder's lock."""

from __future__ import annotations

from pathlib import Path

from reconciler.model.lock import Holder
from reconciler.model.problem import Problem, refuse
from reconciler.operations.initializing import make_state
from reconciler.operations.opening import open_fleet
from reconciler.operations.wiring import Fleet
from reconciler.operations.writing import locking, writing
from reconciler.store import keeping as stored
from reconciler.store.lock import left_behind


def state_init(folder: Path | None, new: bool) -> str:
    """Make a new, empty state; its id. A lost state is not a new one, so `new` must be said."""
    fleet = open_fleet(folder)
    if not new:
        raise refuse(
            "state_missing",
            "a new, empty state is made only when asked for by --new",
            "if there was a state before, bring it back: gpuaas state restore FILE",
        )
    return make_state(fleet)


def state_check(folder: Path | None) -> tuple[Problem, ...]:
    """Everything wrong with the database file, its schema, its guards and its chain of events."""
    return stored.check(open_fleet(folder).database_file)


def state_backup(folder: Path | None, file: Path) -> None:
    """A complete copy, made while others read and write. Raises ProblemError `backup_exists`."""
    stored.backup(open_fleet(folder).database_file, file)


def state_restore(fleet: Fleet, file: Path) -> Path | None:
    """Put a checked copy in place; where the state before it was kept, None if there was none."""
    with locking(fleet, "state restore"):
        return stored.restore(fleet.database_file, file, actor=fleet.actor, now=fleet.now())


def state_unlock(folder: Path | None, id_: str) -> Holder:
    """Forget a dead holder of the lock, which an event says; who it was.

    Raises ProblemError `state_locked` while a holder lives, `lock_other` if `id_` is of another
    lock, `state_not_locked` where there is none.
    """
    fleet = open_fleet(folder)
    dead = left_behind(fleet.state / "lock", id_)
    with writing(fleet, "state unlock"):
        return dead
