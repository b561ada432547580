"""Posture: what a node is good for right now, as an ordered table over its facts.

Derived each time it is asked for; nowhere stored as a flag (PLC-08).
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
    """The facts of one node that postures are judged by; counts are of slots."""

    usable: bool
    answered: bool
    draining: bool
    whole: bool
    slots: int
    held: int
    free: int
    blocked: int


POSTURES: tuple[tuple[Posture, Callable[[NodeTally], bool]], ...] = (
    (Posture.UNAVAILABLE, lambda node: not node.usable),
    (Posture.UNKNOWN, lambda node: not node.answered),
    (Posture.CLEANUP_BLOCKED, lambda node: node.blocked >= node.slots > 0),
    (Posture.DRAINING, lambda node: node.draining),
    (Posture.EXCLUSIVE, lambda node: node.whole),
    (Posture.FULL, lambda node: node.free == 0),
    (Posture.PARTIAL, lambda node: node.held > 0 or node.blocked > 0),
    (Posture.AVAILABLE, lambda node: True),
)
"""The first row that holds is the posture."""


def posture_of(node: NodeTally) -> Posture:
    return next(posture for posture, holds in POSTURES if holds(node))
