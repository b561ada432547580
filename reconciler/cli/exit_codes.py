"""Exit codes: what each one means, and which one wins when several apply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from reconciler.model.problem import HELD_CODES

if TYPE_CHECKING:
    from reconciler.model.plan.comparison import Comparison
    from reconciler.model.plan.plan import Change, Plan
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
        Exit.DRIFT: "drift only (drift, plan --detailed-exitcode)",
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
        "descriptor_unverified": Exit.BLOCKED,
        "node_in_doubt": Exit.BLOCKED,
    }
)


def worst(codes: Iterable[Exit]) -> Exit:
    """The code that wins; `DONE` if there are none."""
    return min(codes, key=PRECEDENCE.index, default=Exit.DONE)


def of_problems(problems: Iterable[Problem]) -> Exit:
    """The exit code of problems; warnings alone do not fail."""
    return worst(_BY_CODE.get(p.code, Exit.ERROR) for p in problems if p.is_error)


def of_plan(plan: Plan, *, detailed: bool) -> Exit:
    """The exit code of a plan; changes count only if `detailed`."""
    found = {of_problems(plan.problems), *(of_change(change) for change in plan.changes)}
    found.update(Exit.DRIFT for note in plan.notes if not note.accepted)
    return worst(found if detailed else found - {Exit.CHANGES, Exit.DRIFT})


def of_comparison(comparison: Comparison, *, detailed: bool) -> Exit:
    """The exit code of a branch; what it takes away is a change like any other."""
    changes = [Exit.CHANGES] if detailed and comparison.withdrawn else []
    return worst([of_plan(comparison.plan, detailed=detailed), *changes])


def of_change(change: Change) -> Exit:
    """The exit code of one change: a frozen resource is an error in its file, drift needs repair
    only.
    """
    if change.action == "frozen":
        return Exit.ERROR
    if change.problem is not None:
        return Exit.HELD if change.problem.code in HELD_CODES else Exit.BLOCKED
    return {"blocked": Exit.BLOCKED, "repair": Exit.DRIFT}.get(change.action, Exit.CHANGES)
