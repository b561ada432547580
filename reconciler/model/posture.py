"""Posture: what a node is good for right now, as ordered tables over its facts.

Derived each time it is asked for; nowhere stored as a flag (PLC-08). The view `projected_posture`
of the state says the same in SQL, and a test holds it to these tables row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


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
    occupancy = next(posture for posture, holds in OCCUPANCIES if holds(node))
    matters = [posture for posture, holds in CONDITIONS if holds(node)]
    return tuple(dict.fromkeys((*matters, occupancy)))


def posture_of(node: NodeTally) -> Posture:
    return postures_of(node)[0]
