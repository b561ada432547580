"""The timeline: the history of one resource, as operations and their phases.

Derived from events and steps each time somebody asks, so that no phase can be left standing. What
is not among the events of an operation did not happen in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType

from reconciler.model.records import dataclass
from reconciler.model.rules import holding
from reconciler.model.state.event import EventType


class Standing(StrEnum):
    """How a phase or an operation stands. `unknown`: it began, and nobody has written its end."""

    DONE = "done"
    FAILED = "failed"
    RUNNING = "running"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTold:
    """`ended` is empty while it runs; `log` is the end of what its host said."""

    name: str
    started: str
    ended: str = ""
    state: Standing = Standing.DONE
    node: str = ""
    detail: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """All that one run did about one ref, or something that happened outside of any.

    `progress` is when it last moved, and `sequence` the number of its last event, by which
    operations are in an order that no clock disturbs. `reason` is what somebody gave as one.
    """

    name: str
    ref: str
    started: str
    actor: str
    ended: str = ""
    state: Standing = Standing.DONE
    run: str = ""
    commit: str = ""
    progress: str = ""
    sequence: int = 0
    reason: str = ""
    phases: tuple[PhaseTold, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTold:
    """What the store keeps of a step beside its events."""

    message: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Under:
    """What is under way just now: the run, and by node when its host came to which phase.

    Empty where nobody is at work.
    """

    run: str = ""
    ticks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


Steps = Mapping[tuple[str, str], StepTold]
"""By run and id of the step."""

BUILD = ("space", "environment", "download", "install", "verify", "seal")
"""What a build of a bundle goes through on a host, which then is looked at time and again."""

ON_HOST: Mapping[str, str] = MappingProxyType(
    {"connect": "connect", "converge": "work", "observe": "look"} | {word: word for word in BUILD}
)
"""What a host goes through in each step, in this order: its word of progress, and ours."""

MOMENTS: Mapping[EventType, str] = MappingProxyType(
    {
        EventType.CLAIMED: "claim",
        EventType.CLAIM_RELEASING: "give up",
        EventType.PROVED: "prove",
        EventType.CLAIM_BLOCKED: "block",
        EventType.OVERRIDDEN: "override",
        EventType.CLAIM_FREED: "free",
        EventType.RENAMED: "rename",
        EventType.RECORDED: "record",
        EventType.FORGOTTEN: "forget",
        EventType.VOLUME_PENDING: "begin data",
        EventType.VOLUME_MADE: "make data",
        EventType.VOLUME_GROWN: "grow data",
        EventType.VOLUME_KEPT: "keep data",
        EventType.VOLUME_WIPING: "wipe data",
        EventType.VOLUME_GONE: "data gone",
        EventType.STAGING_FAILED: "failed",
    }
)
"""Phases that begin and end in one transaction. Any other event is one by its own name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFacts:
    """The facts that operations are named by; `before` and `after` are phases as recorded.

    `action` is that of the plan's line, empty where no host was asked for anything.
    """

    types: frozenset[EventType]
    verbs: frozenset[str]
    action: str = ""
    before: str = ""
    after: str = ""

    def asked(self, word: str) -> bool:
        return any(verb.rpartition(".")[2] == word for verb in self.verbs)


def _has(*types: EventType) -> Callable[[OperationFacts], bool]:
    return lambda deed: not deed.types.isdisjoint(types)


NAMES: tuple[tuple[str, Callable[[OperationFacts], bool]], ...] = (
    ("replace", lambda deed: {EventType.CLAIMED, EventType.CLAIM_RELEASING} <= deed.types),
    ("release", lambda deed: EventType.CLAIM_RELEASING in deed.types or deed.asked("release")),
    ("quarantine", lambda deed: deed.asked("quarantine") or deed.after == "quarantined"),
    ("restore", lambda deed: deed.before == "quarantined" and deed.after == "active"),
    ("restart", lambda deed: EventType.RESTARTING in deed.types or deed.asked("restart")),
    ("prepare", lambda deed: deed.asked("prepare")),
    ("adopt", lambda deed: deed.action == "adopt"),
    ("repair", lambda deed: deed.action == "repair" or deed.asked("repair")),
    ("stage", lambda deed: deed.asked("stage")),
    ("discard", lambda deed: deed.asked("discard")),
    ("create", lambda deed: EventType.CLAIMED in deed.types),
    ("fence", _has(EventType.FENCED)),
    ("reopen", _has(EventType.REOPENING, EventType.REOPENED)),
    ("wipe", _has(EventType.VOLUME_WIPING)),
    ("keep", _has(EventType.VOLUME_KEPT)),
    ("forget", _has(EventType.FORGOTTEN)),
    ("rename", _has(EventType.RENAMED)),
    ("change", lambda deed: bool(deed.verbs) or deed.before != ""),
    ("record", _has(EventType.RECORDED)),
)
"""The first row that holds names the operation; else its first event does."""


def name_of(deed: OperationFacts, first: EventType) -> str:
    return next(holding(NAMES, deed), MOMENTS.get(first, first.value))
