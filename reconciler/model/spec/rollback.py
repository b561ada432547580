"""A rollback: documents as they stood at a commit, and what does not come back with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from reconciler.model.plan.comparison import Comparison
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref


class RollbackAction(StrEnum):
    """What is done to a document that is not as it stood then."""

    CHANGED = "changed"
    PUT_BACK = "put_back"
    TAKEN_OUT = "taken_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    """A document as it stood `then` and stands `now`, as its file says it; None where it is not."""

    ref: Ref
    file: str
    then: Mapping[str, object] | None
    now: Mapping[str, Any] | None

    @property
    def deed(self) -> RollbackAction:
        if self.then is None:
            return RollbackAction.TAKEN_OUT
        return RollbackAction.PUT_BACK if self.now is None else RollbackAction.CHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackNote:
    """A sentence about a resource: what is lost, or what would be opened."""

    ref: Ref
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """What would be written, or was.

    `opens` is what it opens that was shut since, `excluded` what stays as it is for that;
    `comparison` is what follows from it. `commit` is empty unless it was committed.
    """

    to: str
    reverted: tuple[Reverted, ...] = ()
    files: tuple[str, ...] = ()
    patch: str = ""
    lost: tuple[RollbackNote, ...] = ()
    opens: tuple[RollbackNote, ...] = ()
    excluded: tuple[RollbackNote, ...] = ()
    comparison: Comparison | None = None
    written: bool = False
    commit: str = ""
    message: str = field(default="")
