"""Upkeep between two rounds: the loop's copy of its source stays small."""

from __future__ import annotations

from collections.abc import Callable

from reconciler.model.problem import ProblemError
from reconciler.model.records import dataclass
from reconciler.operations.fleet import Fleet
from reconciler.operations.reconcile.source.source import applied_last
from reconciler.operations.reconcile.source.tree import mirror_of

SECONDS = 3600.0


@dataclass(slots=True, kw_only=True)
class Upkeep:
    """Done once in a while. `degraded` says why it could not be, if it could not."""

    clock: Callable[[], float]
    due: float = 0.0
    degraded: str = ""

    def keep(self, fleet: Fleet, stop: Callable[[], bool]) -> None:
        """Do the upkeep until somebody wants it to `stop`; the rest is for the next time."""
        if self.clock() < self.due:
            return
        self.degraded, due = "", self.clock() + SECONDS
        try:
            mirror_of(fleet).maintain(applied_last(fleet), stop)
        except ProblemError as error:
            problem = error.problems[0]
            if problem.code == "interrupted":
                return
            self.degraded = f"the copy of the source grows: {problem.message}"
        except OSError as error:
            self.degraded = f"the copy of the source grows: {error.strerror or error}"
        self.due = due
