"""Conditions: the state of an allocation on two axes, sync and health, each with cause and age.

Sync is how a plan of now stands to what is applied, health what its host shows of it. The words are
the same wherever they are told: on the screen, in JSON, in metrics and in what is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from reconciler.model.codes import CODES
from reconciler.model.moment import format_age, parse_moment
from reconciler.model.records import dataclass

NOTHING = "-"
"""The health of what is wanted and is not there yet."""

OF_AGE = timedelta(minutes=1)
"""Of what is younger people are told no age: most of it turns again at once."""


class Sync(StrEnum):
    """`held` waits for somebody's word, `waiting` for room or for a host, and goes on by itself."""

    IN_SYNC = "in_sync"
    DRIFTED = "drifted"
    CHANGES = "changes"
    HELD = "held"
    BLOCKED = "blocked"
    WAITING = "waiting"


class Health(StrEnum):
    """`progressing` is on its way, up or down; `unknown` as long as its host has not said."""

    HEALTHY = "healthy"
    PROGRESSING = "progressing"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"


CAUSES: Mapping[str, str] = MappingProxyType(
    {
        "failed": "its host could not do what it was asked for",
        "unproved": "nobody has proved that it left its slots clean",
        "unseen": "its host has not told anything, or does not answer",
        "in_doubt": "its host was asked for something, and nobody knows whether it did it",
        "card_missing": "its host does not list one of its GPUs",
        "differs": "its host shows something otherwise than it was made",
        "shut_out": "its host lets somebody not in who should get in",
        "untold": "its host could not say some of what it must show",
    }
)
"""Causes of a health that is not good, beside the stages of what is on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A `word` of one axis. `cause` is a code or a word of a closed list, empty for a good one.

    `since` is when it was first seen to hold; empty where nobody has looked before.
    """

    word: str
    cause: str = ""
    since: str = ""

    def told(self, now: datetime) -> str:
        """The condition in words: `degraded for 3 h: its host does not list one of its GPUs`."""
        at = parse_moment(self.since)
        age = f" for {format_age((now - at).total_seconds())}" if at is not None else ""
        why = CAUSES.get(self.cause) or CODES.get(self.cause) or self.cause
        return f"{self.word}{age}" + (f": {why}" if why else "")
