"""How the state is written, by the journal: under the lock, or beside its holder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reconciler import __version__
from reconciler.operations.fleet import Fleet
from reconciler.store.file.database import Database, Opening
from reconciler.store.file.lock import StateLock
from reconciler.store.journal import Journal


def locking(fleet: Fleet, command: str) -> StateLock:
    """The lock of the fleet's state, waited for as long as its user has patience."""
    return StateLock(
        fleet.state / "lock", actor=fleet.actor.name, command=command, patience=fleet.patience
    )


def insist_on_state(fleet: Fleet) -> None:
    """Check that there is a state, and that it is ours.

    Raises ProblemError `state_missing`, or `state_unsafe_place` where it belongs to somebody else.
    """
    Database.open(fleet.database_file, write=False, opening=Opening(older_ok=True)).close()


@contextmanager
def writing(fleet: Fleet, command: str) -> Iterator[Journal]:
    """The journal, under the lock. Raises ProblemError `state_locked`, `state_missing` and
    others.
    """
    # Before anybody's name is written: a state that is missing, damaged or too new has no writer.
    insist_on_state(fleet)
    with (
        locking(fleet, command) as lock,
        Database.open(fleet.database_file, write=True) as database,
    ):
        journal = Journal(database, fleet.actor, fleet.now, __version__)
        if lock.left_behind is not None:
            journal.take_over_lock(str(lock.left_behind))
            lock.told()
        journal.tidy(fleet.settings.keep)
        yield journal


@contextmanager
def beside(fleet: Fleet) -> Iterator[Journal]:
    """The journal without the lock, for revocations; each of its transactions is short.

    Raises ProblemError `state_missing`, or `state_older`: nobody upgrades a state this way.
    """
    Database.open(fleet.database_file, write=False).close()
    with Database.open(fleet.database_file, write=True) as database:
        yield Journal(database, fleet.actor, fleet.now, __version__)
