"""Reopening: files that an ended allocation left in a storage, and their new owner."""

from __future__ import annotations

from reconciler.model.records import dataclass
from reconciler.model.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenRequest:
    """What is asked for, as it was typed; `to_others` says that it may be another person."""

    storage: str
    old: str
    new: str
    reason: str
    to_others: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """An allocation that has or had a volume: `people` have owned it, one after the other.

    An empty one of them says that others may have. `uid` is None where it had no account; `lives`
    says that its slots, or the volume, are not known to be free of it.
    """

    allocation_id: str
    ref: str
    until: str
    lives: bool
    uid: int | None
    people: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heir:
    """The allocation that is to own them, its owner, and the people who may log in to it."""

    allocation_id: str
    ref: Ref
    login: str
    uid: int | None
    owner: str
    people: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopening:
    """Whose files in `storage` are to be whose, by the host of `node`, where the heir has it.

    `to_others`: they were not, or may not have been, those of the heir's owner, or others may log
    in where they will be open.
    """

    storage: Ref
    volume: str
    node: str
    old: Former
    new: Heir
    to_others: bool
