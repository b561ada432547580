"""Drift: where a host differs from what was applied, and whose business that is."""

from __future__ import annotations

from enum import StrEnum

from reconciler.model.records import dataclass
from reconciler.model.ref import Ref


class DriftClass(StrEnum):
    """Whose what differs is; that alone decides what becomes of it.

    `platform`: we made it, and make it so again. `access`: it says who may log in, so it is an
    alarm as well. `user`: a person's own, which is told and never touched. `evidence`: what a
    machine is, of which a program only tells.
    """

    PLATFORM = "platform"
    ACCESS = "access"
    USER = "user"
    EVIDENCE = "evidence"


class Becomes(StrEnum):
    """What an apply does about it. `unchecked` is no drift: nobody could say."""

    REPAIRED = "repaired"
    REPORTED = "reported"
    ACCEPTED = "accepted"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Somebody's word that a drift is known and may stay `until` then.

    It is good for what was `shown` when it was given (None = gone); where `whatever`, for anything.
    """

    ref: Ref
    key: str
    owner: str
    reason: str
    until: str
    since: str = ""
    shown: str | None = None
    whatever: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One thing on one node. `key` names it within `ref`; `made` is what it was made, None = gone.

    Without a key there is no more to say of it than its `text`.
    """

    ref: Ref
    node: str
    key: str
    kind: DriftClass
    becomes: Becomes
    text: str
    shown: str | None = None
    made: str | None = None
    accepted: Acceptance | None = None
