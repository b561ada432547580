"""What is done with an edit of a spec, and what is told of it; loaded by commands that may edit."""

from __future__ import annotations

from reconciler.model.problem import Problem
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecEdit:
    """What is changed, as a patch; `after` is what the file is to hold.

    `problems` are warnings that it brings. `written` and `commit` say what was done with it.
    """

    ref: str
    file: str
    patch: str
    message: str
    problems: tuple[Problem, ...] = ()
    written: bool = False
    commit: str = ""

    @property
    def changes(self) -> bool:
        return bool(self.patch)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditWish:
    """What is done with an edit: shown alone, written, or committed as well."""

    write: bool = True
    commit: bool = False


WRITE = EditWish()
