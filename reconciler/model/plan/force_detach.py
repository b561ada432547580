"""Forced detach: an operator's decision to end what a tenant runs in a storage."""

from __future__ import annotations

from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """Allocations from which storage is detached though they work in it, and why."""

    refs: tuple[str, ...] = ()
    why: str = ""


NOTHING_FORCED = Forced()
