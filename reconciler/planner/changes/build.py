"""The changes of a plan: each difference becomes one Change with its steps and claims.

An allocation whose files on its host follow from something else, a key or a grant or a template,
gets a line of its own that names the cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reconciler.model.ref import Ref
from reconciler.planner.changes.allocation_lines import WRITERS, line_of_causes
from reconciler.planner.changes.change_set import ChangeSet
from reconciler.planner.changes.held_work import Held
from reconciler.planner.changes.line import (
    Line,
    change_of,
    refused_change,
    with_steps,
)
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.seat import WITH_CAPACITY
from reconciler.planner.core.task import Task


def write_lines(differences: tuple[Difference, ...], changes: ChangeSet) -> Iterator[Line]:
    """A change for every difference, and for every allocation that only its causes change."""
    told: set[Ref] = set()
    for difference in differences:
        line = _line(difference, changes)
        told.update({difference.ref} if line.change.problem is None else ())
        yield line
    for ref, stale in changes.stale.items():
        if ref not in told:
            yield line_of_causes(stale, changes)
    for ref, task in changes.tasks.items():
        if ref not in told:
            yield _line_of_task(task, changes)


def held_lines(held: Iterable[Held], changes: ChangeSet) -> Iterator[Line]:
    """A change for what needs approval though no document asks for it."""
    for difference, problem, cause in held:
        yield Line(change=replace(refused_change(difference, problem, changes), cause=cause))


def _line(difference: Difference, changes: ChangeSet) -> Line:
    ref = difference.ref
    problem = changes.refused.get(ref)
    if problem is not None:
        return Line(change=refused_change(difference, problem, changes))
    if difference.finishing and ref in changes.stale:
        # Taking away access waits for no cleanup: what a replace left behind comes after.
        first = line_of_causes(changes.stale[ref], changes)
        if not first.confirms:
            return first
    if ref in changes.tasks:
        return _do(difference, changes.tasks[ref], changes)
    if ref.kind in WITH_CAPACITY:
        return WRITERS.get(difference.action, _plain)(difference, changes)
    return _plain(difference, changes)


def _plain(difference: Difference, changes: ChangeSet) -> Line:
    return Line(change=change_of(difference, changes))


def _do(difference: Difference, task: Task, changes: ChangeSet) -> Line:
    """What a task does, whatever else changes about its ref."""
    change = change_of(difference, changes)
    change = replace(change, facts={**change.facts, **task.facts}, basis=task.basis or change.basis)
    return Line(change=with_steps(change, task.steps), steps=task.steps)


def _line_of_task(task: Task, changes: ChangeSet) -> Line:
    """The change of a task about whose ref no other change is carried out.

    A host is made ready or it is not; all else is done by what was recorded, though a change of
    its document is refused: an error in a bundle's file keeps nobody from what it was before.
    """
    difference, problem = task.difference, changes.refused.get(task.ref) if task.early else None
    held = Line(change=refused_change(difference, problem, changes)) if problem else None
    line = held or _do(difference, task, changes)
    risk, cause = task.risk or line.change.risk, task.cause
    return replace(line, change=replace(line.change, risk=risk, cause=cause))
