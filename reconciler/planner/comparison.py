"""Comparison: one plan minus what another does as well, over the same state and moment."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import TypeVar

from reconciler.model.canonical import canonical
from reconciler.model.codec import encode
from reconciler.model.plan.comparison import Comparison, ComparisonBase
from reconciler.model.plan.plan import Change, Plan
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref

BEFORE = "before"
"""The label of what the base would do with the same resource."""

T = TypeVar("T")


def compare_plans(ours: Plan, theirs: Plan, base: ComparisonBase, place: str = "") -> Comparison:
    """What `ours` adds to `theirs`, the plan of the base."""
    left: dict[Ref, list[Change]] = {}
    for change in theirs.changes:
        left.setdefault(change.ref, []).append(change)
    brought: list[Change] = []
    shared: list[Change] = []
    for change in ours.changes:
        others = left.get(change.ref, [])
        same = next((one for one in others if _said(one) == _said(change)), None)
        if same is None:
            brought.append(change)
        else:
            others.remove(same)
            shared.append(change)
    otherwise = {change.ref for change in brought}
    return Comparison(
        base=base,
        plan=_less(
            ours,
            theirs,
            tuple(_beside(change, left.get(change.ref, ()), base) for change in brought),
        ),
        withdrawn=tuple(
            change for ref, changes in left.items() if ref not in otherwise for change in changes
        ),
        shared=tuple(shared),
        mended=len(_beyond(theirs.problems, ours.problems, _problem)),
        price_per_hour=_prices(ours, theirs),
        place=place,
    )


def _less(ours: Plan, theirs: Plan, changes: tuple[Change, ...]) -> Plan:
    """A plan to look at only: nothing of it can be saved or applied."""
    held = theirs.figures.gpus_held_after
    return replace(
        ours,
        changes=changes,
        confirmed=(),
        moved={},
        claims=(),
        volumes=(),
        attachments=(),
        waves=(),
        waiting=(),
        suspended=(),
        problems=_beyond(ours.problems, theirs.problems, _problem),
        notes=_beyond(ours.notes, theirs.notes, _all),
        ends=_beyond(ours.ends, theirs.ends, _all),
        figures=replace(ours.figures, silent={}, gpus_held_before=held, unchanged=0),
        fingerprint="",
    )


def _said(change: Change) -> Hashable:
    """What is done and to what, without the texts, which also tell of the moment."""
    placement = change.placement
    return (
        change.action,
        change.risk,
        change.digest,
        change.basis,
        change.problem.code if change.problem else "",
        change.cause,
        change.former,
        change.steps,
        change.expires_at,
        (placement.node, placement.slots) if placement else None,
        canonical([encode(field) for field in change.fields]),
    )


def _beside(change: Change, others: Iterable[Change], base: ComparisonBase) -> Change:
    """The change, with what the base would do instead."""
    told = "; ".join(filter(None, map(_deed, others)))
    facts = {**change.facts, BEFORE: f"{base.revision} would: {told}"} if told else change.facts
    return replace(change, facts=facts)


def _deed(change: Change) -> str:
    where = change.placement
    place = "/".join(filter(None, (where.node, ",".join(where.slots)))) if where else ""
    code = change.problem.code if change.problem else ""
    return " · ".join(filter(None, (change.action.value, code, place, change.summary)))


def _problem(problem: Problem) -> Hashable:
    """The problem without its line, which moves when something is written above it."""
    file = problem.source.file if problem.source else ""
    return problem.code, problem.message, problem.ref, file


def _all(one: object) -> Hashable:
    return canonical(encode(one))


def _beyond(ours: Iterable[T], theirs: Iterable[T], key: Callable[[T], Hashable]) -> tuple[T, ...]:
    known = {key(one) for one in theirs}
    return tuple(one for one in ours if key(one) not in known)


def _prices(ours: Plan, theirs: Plan) -> dict[str, str]:
    sums: dict[str, Decimal] = {}
    for plan, sign in ((ours, 1), (theirs, -1)):
        for change in plan.active:
            for money, rate in change.price_per_hour.items():
                sums[money] = sums.get(money, Decimal(0)) + sign * Decimal(rate)
    return {money: str(rate) for money, rate in sums.items() if rate}
