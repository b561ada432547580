"""Tenancy: a present or past holder of a slot or node, and each attempt to prove it clean."""

from __future__ import annotations

from reconciler.model.host.evidence import Check
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One proof, passed or not, with everything that was measured. `source` is who told it."""

    proof: str
    at: str
    source: str
    passed: bool
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """`freed_by` is the proof that ended it; without one it was the word of `actor`, when and why.

    `slot` is None for a whole node, `state` that of the claim, `problem` why it is blocked.
    """

    claim: str
    allocation_id: str
    ref: str
    login: str
    project: str
    node: str
    slot: str | None
    state: str
    since: str
    freed_at: str = ""
    freed_by: str = ""
    problem: str = ""
    actor: str = ""
    said_at: str = ""
    reason: str = ""
    tried: tuple[Tried, ...] = ()
