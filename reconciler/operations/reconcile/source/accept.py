"""`reconcile accept`: a rewritten history is followed by somebody's decision."""

from __future__ import annotations

from reconciler.model.records import dataclass
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import writing
from reconciler.operations.reconcile.source.source import asked_for
from reconciler.operations.reconcile.source.tree import mirror_of
from reconciler.store.tables import history


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The outcome: `commit` is followed from now on, in place of `former`."""

    commit: str
    former: str
    reason: str


def accept_history(fleet: Fleet, commit: str, reason: str) -> Accepted:
    """Accept a history. Raises ProblemError `not_found` for a commit that the source does not
    have.
    """
    with writing(fleet, "reconcile accept") as journal:
        former, wanted = asked_for(fleet, commit)
        journal.enter("accept_history", history.accept, former, wanted, reason)
        mirror = mirror_of(fleet)
        mirror.follow(wanted, mirror.followed())
    return Accepted(commit=wanted, former=former, reason=reason)
