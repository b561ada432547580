"""Problems: how every room reports that something is wrong, with its place and the next step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from enum import StrEnum

from reconciler.model.records import dataclass
from reconciler.model.state.lock import LockHolder

HELD_CODES = frozenset(
    {
        "held_for_approval",
        "removal_uncommitted",
        "revocations_guard",
        "removals_guard",
        "project_guard",
        "folder_guard",
        "held_by_policy",
        "loop_suspended",
    }
)
"""Codes of what could be done, and waits for somebody's word."""

WAITING_CODES = frozenset({"sku_unavailable", "storage_wiping"})
"""Codes of what goes on by itself: once there is room, or a host is done."""


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


PathPart = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A place in a spec: `line` and `column` count from 1, 0 means not located yet.

    `path` leads into document number `document` (from 0) of `file`; `text` is the source line.
    """

    file: str
    document: int = 0
    path: tuple[PathPart, ...] = ()
    line: int = 0
    column: int = 0
    text: str = ""

    @property
    def dotted(self) -> str:
        """The path as people write it: `spec.keys[0].publicKey`."""
        shown = ""
        for part in self.path:
            shown += f"[{part}]" if isinstance(part, int) else f".{part}" if shown else part
        return shown

    @property
    def order(self) -> tuple[str, int, int, int, str]:
        return (self.file, self.document, self.line, self.column, self.dotted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`code` is a stable symbol of `codes.CODES`; `hint` says the next action.

    `holder` is who has the lock that was wanted.
    """

    code: str
    message: str
    hint: str = ""
    source: Source | None = None
    ref: str = ""
    severity: Severity = Severity.ERROR
    holder: LockHolder | None = None

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def at(self, source: Source) -> Problem:
        return replace(self, source=source)


@dataclass(slots=True)
class ProblemError(Exception):
    """Carries every problem found, in order of place; the CLI's boundary turns it into output."""

    problems: tuple[Problem, ...] = field(default=())

    def __post_init__(self) -> None:
        Exception.__init__(self, "; ".join(f"{p.code}: {p.message}" for p in self.problems))


def refuse(
    code: str, message: str, hint: str = "", *, source: Source | None = None
) -> ProblemError:
    """One problem, ready to be raised."""
    return ProblemError((Problem(code=code, message=message, hint=hint, source=source),))


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sorted by place, then code and message; problems without a place come last."""
    nowhere = ("\U0010ffff", 0, 0, 0, "")
    return tuple(
        sorted(
            set(problems),
            key=lambda p: (p.source.order if p.source else nowhere, p.code, p.message),
        )
    )
