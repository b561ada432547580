"""Exit codes: what each one says, and which one wins when several are true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.model.problem import Problem


class Exit(IntEnum):
    DONE = 0
    ERROR = 1
    CHANGES = 2
    BLOCKED = 3
    DRIFT = 4
    HELD = 5
    USAGE = 64
    INTERRUPTED = 130


MEANING: Mapping[Exit, str] = MappingProxyType(
    {
        Exit.DONE: "done, or nothing to do",
        Exit.ERROR: "an error",
        Exit.CHANGES: "changes to apply (plan --detailed-exitcode)",
        Exit.BLOCKED: "something is blocked",
        Exit.DRIFT: "drift only (plan --detailed-exitcode)",
        Exit.HELD: "something waits for a consent",
        Exit.USAGE: "wrong usage",
        Exit.INTERRUPTED: "interrupted",
    }
)

PRECEDENCE = (
    Exit.INTERRUPTED,
    Exit.USAGE,
    Exit.ERROR,
    Exit.BLOCKED,
    Exit.HELD,
    Exit.CHANGES,
    Exit.DRIFT,
    Exit.DONE,
)
"""The first two end a command on their own; among outcomes an error always wins."""

_BY_CODE: Mapping[str, Exit] = MappingProxyType(
    {
        "usage": Exit.USAGE,
        "interrupted": Exit.INTERRUPTED,
        "nobody_to_ask": Exit.HELD,
        "held_for_approval": Exit.HELD,
        "declined": Exit.HELD,
        "plan_blocked": Exit.BLOCKED,
        "sku_unavailable": Exit.BLOCKED,
    }
)


def worst(codes: Iterable[Exit]) -> Exit:
    """The code that wins; `DONE` if there are none."""
    return min(codes, key=PRECEDENCE.index, default=Exit.DONE)


def of_problems(problems: Iterable[Problem]) -> Exit:
    """Warnings are no reason to fail."""
    return worst(_BY_CODE.get(p.code, Exit.ERROR) for p in problems if p.is_error)
