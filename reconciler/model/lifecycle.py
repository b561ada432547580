"""The words for where a resource, a run and a step stand."""

from __future__ import annotations

from enum import StrEnum


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
