"""The lock as people see it: who holds it, and how long somebody waits for it."""

from __future__ import annotations

from collections.abc import Callable

from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """Who wrote their name into the lock; `start` and `boot_id` tell their pid from a later one.

    `id` is of this one time that the lock is held.
    """

    id: str = ""
    pid: int
    start: int
    host: str
    boot_id: str
    since: str
    actor: str
    command: str

    def __str__(self) -> str:
        return (
            f"{self.actor} ({self.command}, pid {self.pid} on {self.host}, since {self.since},"
            f" boot {self.boot_id}, lock {self.id or 'without id'})"
        )


def nobody_listens(holder: str) -> None:
    """Tells nobody, where nobody watches."""


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LockPatience:
    """How long to wait for the lock, unless it is to `stop` before; `of_a_round` for a loop's.

    `tell` is told for whom, once for each that holds it.
    """

    seconds: float = 0.0
    of_a_round: float = 0.0
    tell: Callable[[str], None] = nobody_listens
    stop: Callable[[], bool] = never


NO_PATIENCE = LockPatience()
