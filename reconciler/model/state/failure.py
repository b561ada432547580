"""Failures: what a node could not do, and how much that counts against it now.

A node that failed is asked after the others, until it does what it is asked for, something about
it changes, somebody says so, or enough time has gone by.
"""

from __future__ import annotations

from datetime import datetime

from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.moment import format_age, parse_moment
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref

HALF_LIFE_MINUTES = 60
"""In so long half of what counts against a node is forgotten."""

MOST = 64

OF_THE_HOST = frozenset(
    {"cgroup", "devices", "door", "environment", "folder", "network", "numbers", "sshd"}
)
"""First words of facts that no tenant's coming or going changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`count` is how often, as of `at`, with what was forgotten by then taken off.

    `basis` is the digest of what the host showed of itself.
    """

    node: str
    count: int
    since: str
    at: str
    verb: str
    ref: Ref
    code: str
    message: str
    basis: str = ""

    def weight(self, facts: NodeFacts | None, now: datetime) -> int:
        """How much it counts now; 0 once it is forgotten, or the host has become another."""
        at = parse_moment(self.at)
        if at is None or self.basis != basis_of(facts):
            return 0
        hours = max(0.0, (now - at).total_seconds()) / 60 / HALF_LIFE_MINUTES
        return int(self.count * 0.5**hours + 0.5) if hours < MOST else 0

    def told(self, now: datetime) -> str:
        """`failed 3 times, 5m ago: path_unsafe: …`, for people."""
        at = parse_moment(self.at)
        ago = f", {format_age(max(0.0, (now - at).total_seconds()))} ago" if at else ""
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"failed {times}{ago}: {self.code}: {self.message}"


def basis_of(facts: NodeFacts | None) -> str:
    """Digest of what a host is: its boot, its system, its cards, and what it was prepared with."""
    if facts is None:
        return ""
    cards = sorted((gpu.uuid, gpu.driver or "") for gpu in facts.gpus or ())
    named = {
        key: fact
        for key, fact in (facts.platform or {}).items()
        if key.partition(" ")[0] in OF_THE_HOST
    }
    about = [facts.machine_id, facts.boot_id, facts.os, facts.memory_mib, cards, named]
    return digest(encode(about))
