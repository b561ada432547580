"""Rebuilt: what is recorded of allocations that hosts know and this state does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from reconciler.model.host.evidence import Check, Observation
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.plan import Change
from reconciler.model.records import dataclass
from reconciler.model.state.volume import Attachment, Volume
from reconciler.model.state.world import Doubt, DoubtKind, Recorded

MARGIN = 1000
"""How far counters go on above the highest number that is known (rule 21)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedDoubt:
    """A doubt that is over, and what was measured to end it."""

    node: str
    kind: DoubtKind
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedDoubts:
    """Taints that were examined: those that are over, and those that stay with a reason."""

    ended: tuple[EndedDoubt, ...] = ()
    kept: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """`why` tells by allocation id where a claim comes from. `changes` are what use is billed by.

    `volumes` are as they were found, made or kept, with the attachments that hosts may still have.
    `severed` are attachments that somebody's word has ended, and no host yet; `gids` are numbers of
    projects that files bear.
    `least` are counters below which no number is given again, `reason` that of who asked for it.
    """

    nodes: tuple[str, ...]
    claims: tuple[ClaimIntent, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    recorded: tuple[Recorded, ...] = ()
    changes: tuple[Change, ...] = ()
    volumes: tuple[Volume, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    severed: tuple[Attachment, ...] = ()
    gids: Mapping[str, int] = field(default_factory=dict)
    observations: tuple[Observation, ...] = ()
    doubts: JudgedDoubts = field(default_factory=JudgedDoubts)
    least: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
