"""Posture: what a node can be used for now, as ordered tables over its facts.

Derived each time it is asked for; nowhere stored as a flag (PLC-08). The view `projected_posture`
of the state says the same in SQL, and a test holds it to these tables row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

from reconciler.model.host.capacity import SlotState
from reconciler.model.records import dataclass
from reconciler.model.rules import holding


class Posture(StrEnum):
    UNAVAILABLE = "unavailable"
    UNKNOWN = "unknown"
    CLEANUP_BLOCKED = "cleanup_blocked"
    DRAINING = "draining"
    EXCLUSIVE = "exclusive"
    FULL = "full"
    PARTIAL = "partial"
    AVAILABLE = "available"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTally:
    """The facts of one node that postures are judged by; counts are of slots.

    It is `usable` as far as people say, `answered` when it was last asked, and `draining` where it
    takes nobody new. `held` are in use or given up just now, `blocked` not proved to be clean, and
    `free` can be given out.
    """

    usable: bool
    answered: bool
    draining: bool
    whole: bool
    slots: int
    held: int
    free: int
    blocked: int


Row = tuple[Posture, Callable[[NodeTally], bool]]

CONDITIONS: tuple[Row, ...] = (
    (Posture.UNAVAILABLE, lambda node: not node.usable),
    (Posture.UNKNOWN, lambda node: not node.answered),
    (Posture.CLEANUP_BLOCKED, lambda node: node.blocked >= node.slots > 0),
    (Posture.DRAINING, lambda node: node.draining),
)
"""What is the matter with a node, the graver first; more than one may hold."""

OCCUPANCIES: tuple[Row, ...] = (
    (Posture.EXCLUSIVE, lambda node: node.whole),
    (Posture.FULL, lambda node: node.free == 0 and node.held > 0),
    (Posture.UNAVAILABLE, lambda node: node.free == 0),
    (Posture.PARTIAL, lambda node: node.held > 0 or node.blocked > 0),
    (Posture.AVAILABLE, lambda node: True),
)
"""How much of it is given out: the first row that holds, and no other."""


def postures_of(node: NodeTally) -> tuple[Posture, ...]:
    """All that is to be said of a node, each once; the first of them is its posture."""
    occupancy = next(holding(OCCUPANCIES, node))
    return tuple(dict.fromkeys((*holding(CONDITIONS, node), occupancy)))


def posture_of(node: NodeTally) -> Posture:
    return postures_of(node)[0]


class Reuse(StrEnum):
    """Whether anybody may be given it now, in the four words that nodes and slots share."""

    REUSABLE = "reusable"
    DRAINING = "draining"
    CLEANUP_BLOCKED = "cleanup_blocked"
    BLOCKED = "blocked"


NODE_REUSE: Mapping[Posture, Reuse] = MappingProxyType(
    {
        Posture.UNAVAILABLE: Reuse.BLOCKED,
        Posture.UNKNOWN: Reuse.BLOCKED,
        Posture.CLEANUP_BLOCKED: Reuse.CLEANUP_BLOCKED,
        Posture.DRAINING: Reuse.DRAINING,
        Posture.EXCLUSIVE: Reuse.BLOCKED,
        Posture.FULL: Reuse.BLOCKED,
        Posture.PARTIAL: Reuse.REUSABLE,
        Posture.AVAILABLE: Reuse.REUSABLE,
    }
)

SLOT_REUSE: Mapping[SlotState, Reuse] = MappingProxyType(
    {
        SlotState.FREE: Reuse.REUSABLE,
        SlotState.HELD: Reuse.BLOCKED,
        SlotState.RELEASING: Reuse.BLOCKED,
        SlotState.CLEANUP_BLOCKED: Reuse.CLEANUP_BLOCKED,
        SlotState.NOT_APPROVED: Reuse.BLOCKED,
        SlotState.NOT_READY: Reuse.BLOCKED,
        SlotState.DISABLED: Reuse.BLOCKED,
        SlotState.DRAINING: Reuse.DRAINING,
        SlotState.UNAVAILABLE: Reuse.BLOCKED,
        SlotState.UNKNOWN: Reuse.BLOCKED,
    }
)
