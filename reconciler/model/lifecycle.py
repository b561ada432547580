"""State machines as tables: a move that no row allows is a defect and is refused."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Phase(StrEnum):
    """Where an applied resource stands; resources without host effects are always `active`."""

    PROVIDING = "providing"
    ACTIVE = "active"
    FAILED = "failed"
    RELEASING = "releasing"
    RELEASED = "released"


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


PHASE_MOVES: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        Phase.PROVIDING: frozenset({Phase.ACTIVE, Phase.FAILED, Phase.RELEASING}),
        Phase.ACTIVE: frozenset({Phase.ACTIVE, Phase.FAILED, Phase.RELEASING}),
        Phase.FAILED: frozenset({Phase.PROVIDING, Phase.ACTIVE, Phase.FAILED, Phase.RELEASING}),
        Phase.RELEASING: frozenset({Phase.RELEASING, Phase.RELEASED}),
        Phase.RELEASED: frozenset(),
    }
)

STEP_MOVES: Mapping[StepState, frozenset[StepState]] = MappingProxyType(
    {
        StepState.OPEN: frozenset({StepState.DONE, StepState.FAILED, StepState.UNKNOWN}),
        StepState.UNKNOWN: frozenset({StepState.DONE, StepState.FAILED}),
        StepState.DONE: frozenset(),
        StepState.FAILED: frozenset(),
    }
)
