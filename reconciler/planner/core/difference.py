"""Difference: what would happen to one ref, before any rule has judged it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.model.host.facts import restart_fact
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Cause, FieldChange
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded, World
from reconciler.planner.core.facts import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What would happen to one ref. `resource` is None for what goes, `recorded` for what comes.

    A release with `undo_minutes` destroys nothing yet.
    """

    ref: Ref
    action: Action
    resource: Resource | None = None
    recorded: Recorded | None = None
    fields: tuple[FieldChange, ...] = ()
    former: Ref | None = None
    problem: Problem | None = None
    cause: Cause | None = None
    undo_minutes: int = 0

    @property
    def finishing(self) -> bool:
        """A replace that is done but for what it leaves behind."""
        return self.action is Action.REPLACE and not self.fields

    @property
    def file(self) -> str:
        if self.resource is not None:
            return self.resource.file
        return self.recorded.file if self.recorded else ""


def of_kind(differences: Iterable[Difference], kind: str) -> Iterator[Difference]:
    """The differences of resources of one kind."""
    return (one for one in differences if one.ref.kind == kind)


BROKEN, UNREAD = "resource_broken", "revocation_unread"
"""Codes of what stays as it is, as its document is in error."""


LEAVING = frozenset({Phase.QUARANTINED, Phase.RELEASING})
"""Phases in which nothing joins an allocation any more."""


def is_consented(difference: Difference) -> bool:
    """Whether somebody agreed to it already: it was begun, or its time was known to end."""
    return difference.finishing or difference.cause in (Cause.EXPIRED, Cause.CONSENTED)


def has_begun(difference: Difference, world: World) -> bool:
    """Whether the host has come to the generation that is wanted: nothing more is interrupted."""
    resource, recorded = difference.resource, difference.recorded
    if difference.action is not Action.RESTART or resource is None or recorded is None:
        return False
    seen = world.observations.get(recorded.node)
    fact = shown(seen.facts if seen else None, restart_fact.restart_key(recorded.id)) or ""
    return restart_fact.has_begun(fact, resource.spec.restart.generation)
