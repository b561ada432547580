"""Events: the append-only record of who changed what, why and by which commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from reconciler.model.records import dataclass


class EventType(StrEnum):
    STATE_CREATED = "state_created"
    STATE_RESTORED = "state_restored"
    STATE_REBUILT = "state_rebuilt"
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    APPROVED = "approved"
    DOUBTED = "doubted"
    DOUBT_ENDED = "doubt_ended"
    RUN_STARTED = "run_started"
    RUN_ENDED = "run_ended"
    PLAN_USED = "plan_used"
    RECORDED = "recorded"
    FORGOTTEN = "forgotten"
    RENAMED = "renamed"
    CLAIMED = "claimed"
    CLAIM_RELEASING = "claim_releasing"
    CLAIM_BLOCKED = "claim_blocked"
    CLAIM_FREED = "claim_freed"
    OVERRIDDEN = "overridden"
    PROVED = "proved"
    VOLUME_PENDING = "volume_pending"
    VOLUME_MADE = "volume_made"
    VOLUME_GROWN = "volume_grown"
    VOLUME_KEPT = "volume_kept"
    VOLUME_WIPING = "volume_wiping"
    VOLUME_GONE = "volume_gone"
    ATTACHING = "attaching"
    DETACHED = "detached"
    FENCED = "fenced"
    DETACH_FORCED = "detach_forced"
    REOPENING = "reopening"
    REOPENED = "reopened"
    STAGING = "staging"
    STAGED = "staged"
    STAGING_FAILED = "staging_failed"
    DISCARDED = "discarded"
    RESTARTING = "restarting"
    STEP_STARTED = "step_started"
    STEP_ENDED = "step_ended"
    WAITING = "waiting"
    REFUSED = "refused"
    OBSERVED = "observed"
    NODE_FAILED = "node_failed"
    NODE_CLEARED = "node_cleared"
    DRIFT_ACCEPTED = "drift_accepted"
    DRIFT_RETRACTED = "drift_retracted"
    HISTORY_ACCEPTED = "history_accepted"
    LOCK_TAKEN_OVER = "lock_taken_over"


SERIAL_TYPES = frozenset(
    {
        EventType.STATE_CREATED,
        EventType.STATE_RESTORED,
        EventType.STATE_REBUILT,
        EventType.RECORDED,
        EventType.FORGOTTEN,
        EventType.RENAMED,
        EventType.CLAIMED,
        EventType.CLAIM_RELEASING,
        EventType.CLAIM_BLOCKED,
        EventType.CLAIM_FREED,
        EventType.VOLUME_PENDING,
        EventType.VOLUME_MADE,
        EventType.VOLUME_GROWN,
        EventType.VOLUME_KEPT,
        EventType.VOLUME_WIPING,
        EventType.VOLUME_GONE,
        EventType.ATTACHING,
        EventType.DETACHED,
        EventType.FENCED,
        EventType.SUSPENDED,
        EventType.RESUMED,
        EventType.DRIFT_ACCEPTED,
        EventType.DRIFT_RETRACTED,
    }
)
"""Events that change recorded, claim or admin state: they make earlier plans stale."""


class Component(StrEnum):
    """The part of the program that an event comes from."""

    RECONCILER = "reconciler"
    """Plans and applies, and writes down what is now true of a resource."""
    SCHEDULER = "scheduler"
    """Gives out places, and says to whom it cannot."""
    NODE_AGENT = "node-agent"
    """Has hosts do the verbs of the list, and reads back what they show."""
    CLEANUP = "cleanup"
    """Proves places clean, or says why they are not."""
    STORAGE = "storage"
    CATALOG = "catalog"
    """Bundles: what hosts build and keep of them."""
    OPERATOR = "operator"
    """The word of a person, outside of git."""
    STATE = "state"
    """The record itself, and who writes to it."""


_COMES_FROM: Mapping[Component, str] = {
    Component.RECONCILER: "run_started run_ended plan_used recorded forgotten renamed refused",
    Component.SCHEDULER: "claimed claim_releasing waiting node_failed node_cleared",
    Component.NODE_AGENT: "step_started step_ended restarting observed",
    Component.CLEANUP: "proved claim_blocked claim_freed",
    Component.STORAGE: "volume_pending volume_made volume_grown volume_kept volume_wiping"
    " volume_gone attaching detached reopened",
    Component.CATALOG: "staging staged staging_failed discarded",
    Component.OPERATOR: "suspended resumed approved overridden fenced detach_forced reopening"
    " drift_accepted drift_retracted history_accepted",
    Component.STATE: "state_created state_restored state_rebuilt doubted doubt_ended"
    " lock_taken_over",
}
COMPONENTS: Mapping[EventType, Component] = {
    EventType(word): component for component, words in _COMES_FROM.items() for word in words.split()
}
"""Each type comes from one component, so that events of earlier versions have theirs as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts: the OS user of the control machine and, where known, the User they are."""

    name: str
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`sequence` and `digest` are given by the store; `digest` chains over the one before.

    `component` follows from the type, and is therefore no part of the chain.
    """

    type: EventType
    actor: str
    ref: str = ""
    commit: str = ""
    before: Mapping[str, object] | None = None
    after: Mapping[str, Any] | None = None
    reason: str = ""
    run: str = ""
    at: str = ""
    sequence: int = 0
    digest: str = ""
    component: Component = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "component", COMPONENTS[self.type])
