"""Lifecycle: the states of resources, runs and steps, and which may follow which.

An allocation has few coarse phases, which are recorded, and behind each of them fine stages, which
are derived from claims, steps and proofs each time somebody asks: so none can be left standing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

from reconciler.model.plan.verb import Verb
from reconciler.model.records import dataclass
from reconciler.model.rules import holding


class Phase(StrEnum):
    """Where an applied resource stands; resources without host effects are always `active`.

    One that is `quarantined` is to go and can still come back: nobody gets in, all it has stays.
    """

    PROVIDING = "providing"
    ACTIVE = "active"
    QUARANTINED = "quarantined"
    FAILED = "failed"
    RELEASING = "releasing"
    RELEASED = "released"


EDGES: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        Phase.PROVIDING: frozenset({Phase.ACTIVE, Phase.FAILED, Phase.RELEASING}),
        Phase.FAILED: frozenset({Phase.PROVIDING, Phase.ACTIVE, Phase.RELEASING}),
        Phase.ACTIVE: frozenset({Phase.QUARANTINED, Phase.RELEASING}),
        Phase.QUARANTINED: frozenset({Phase.ACTIVE, Phase.RELEASING}),
        Phase.RELEASING: frozenset({Phase.RELEASED}),
        Phase.RELEASED: frozenset(),
    }
)
"""What one incarnation may become. A release that has begun is never taken back: nobody can say

what is left of it. Who takes its place under the same ref is another incarnation, with its own id.
"""


def may_become(before: Phase, after: Phase) -> bool:
    return before is after or after in EDGES[before]


class Stage(StrEnum):
    """How far an allocation is within its phase."""

    CLAIMED = "claimed"
    PROVIDING = "providing"
    ADMITTING = "admitting"
    READY = "ready"
    IN_DOUBT = "in_doubt"
    QUARANTINED = "quarantined"
    REVOKING = "revoking"
    WIPING = "wiping"
    UNPROVED = "unproved"


PHASE_OF: Mapping[Stage, Phase] = MappingProxyType(
    {
        Stage.CLAIMED: Phase.PROVIDING,
        Stage.PROVIDING: Phase.PROVIDING,
        Stage.ADMITTING: Phase.PROVIDING,
        Stage.READY: Phase.ACTIVE,
        Stage.IN_DOUBT: Phase.ACTIVE,
        Stage.QUARANTINED: Phase.QUARANTINED,
        Stage.REVOKING: Phase.RELEASING,
        Stage.WIPING: Phase.RELEASING,
        Stage.UNPROVED: Phase.RELEASING,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """The facts that stages are judged by. `phase` is None before anything is recorded.

    `asked` are the verbs that a host was asked for and that have no known end.
    """

    phase: Phase | None
    asked: frozenset[str] = frozenset()
    settled: bool = True
    access_pending: bool = False
    blocked: bool = False


STAGES: tuple[tuple[Stage, Callable[[StageFacts], bool]], ...] = (
    (Stage.UNPROVED, lambda it: it.phase is Phase.RELEASING and it.blocked),
    (Stage.REVOKING, lambda it: it.phase is Phase.RELEASING and it.access_pending),
    (Stage.WIPING, lambda it: it.phase in (Phase.RELEASING, Phase.RELEASED)),
    (Stage.QUARANTINED, lambda it: it.phase is Phase.QUARANTINED),
    (Stage.IN_DOUBT, lambda it: it.phase is Phase.ACTIVE and not it.settled),
    (Stage.READY, lambda it: it.phase is Phase.ACTIVE),
    (Stage.PROVIDING, lambda it: Verb.PROVIDE in it.asked),
    (Stage.ADMITTING, lambda it: Verb.SYNC in it.asked),
    (Stage.CLAIMED, lambda it: True),
)
"""The first row that holds is the stage."""


def stage_of(standing: StageFacts) -> Stage:
    return next(holding(STAGES, standing))


class RunState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class StepState(StrEnum):
    """`unknown`: the host may or may not have done it; the next walk observes first."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
