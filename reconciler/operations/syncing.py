"""Syncing: how a plan of now stands to what is applied, a word for each allocation.

A word for people only: a plan says what would be done and why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.model.plan import Action, Change, Plan
from reconciler.model.ref import Ref
from reconciler.operations.views import AllocationRow, NeedsYou, Pending

HELD_CODE, NO_ROOM = "held_for_approval", "sku_unavailable"
IN_SYNC = "in_sync"

SYNC: tuple[tuple[str, Callable[[Change], bool]], ...] = (
    ("held", lambda c: c.problem is not None and c.problem.code == HELD_CODE),
    ("blocked", lambda c: c.problem is not None or c.action is Action.BLOCKED),
    ("frozen", lambda c: c.action is Action.FROZEN),
    ("drifted", lambda c: c.action is Action.REPAIR),
    ("changes", lambda c: True),
)
"""The first row that holds is the word; of what no plan speaks is `in_sync`."""


def sync_of(change: Change) -> str:
    return next(word for word, holds in SYNC if holds(change))


def synced(rows: Iterable[AllocationRow], plan: Plan, project: str = "") -> Iterator[AllocationRow]:
    """The rows with what a plan of now says of each, and those that are wanted and not applied."""
    words = {str(c.ref): sync_of(c) for c in plan.changes if c.ref.kind == "allocation"}
    told = [replace(row, sync=words.get(row.ref, IN_SYNC)) for row in rows]
    known = {row.ref for row in told}
    told += [row for row in _wanted(plan, project) if row.ref not in known]
    yield from sorted(told, key=lambda row: row.ref)


def needs_of(plan: Plan, waiting: Collection[Ref]) -> Iterator[NeedsYou]:
    """What the plan would not do; who waits for room is told of already."""
    if errors := [problem for problem in plan.problems if problem.is_error]:
        text = errors[0].message if len(errors) == 1 else f"{len(errors)} problems in the specs"
        yield NeedsYou(kind="error", text=text, command="gpuaas validate", code=errors[0].code)
    for change in plan.changes:
        problem = change.problem
        if problem is None or (change.ref in waiting and problem.code == NO_ROOM):
            continue
        kind = sync_of(change)
        held = problem.code == HELD_CODE
        text = f"{change.action} {change.ref}" if held else f"{change.ref} {problem.code}"
        command = "gpuaas apply" if held else f"gpuaas why {change.ref}"
        yield NeedsYou(kind=kind, text=text, command=command, code=problem.code)


def _wanted(plan: Plan, project: str) -> Iterator[AllocationRow]:
    """What nothing is recorded of, as its document says it."""
    for change in plan.changes:
        if change.ref.kind != "allocation" or project not in ("", change.ref.project):
            continue
        spec: Mapping[str, str] = (change.normal or {}).get("spec", {})
        yield AllocationRow(
            ref=str(change.ref),
            owner=spec.get("owner", ""),
            sku=spec.get("sku", ""),
            node="",
            slots=(),
            phase="",
            health="-",
            login="",
            sync=sync_of(change),
        )


def pending(plan: Plan) -> Pending:
    """The plan in numbers."""
    words = [sync_of(change) for change in plan.changes]
    return Pending(
        commit=plan.revision.commit,
        dirty=plan.revision.dirty,
        changes=sum(word in ("changes", "drifted") for word in words),
        held=words.count("held"),
        blocked=words.count("blocked"),
        errors=sum(problem.is_error for problem in plan.problems),
    )
