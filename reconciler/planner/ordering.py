"""WHEN: steps in waves. On one host retire comes before provide, and provide before enrich;

across hosts a wave waits for the longest chain of what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from reconciler.model.plan import Order, Step, Wave
from reconciler.model.ref import Ref

ORDERS = tuple(Order)


def in_waves(steps: Iterable[Step], after: Mapping[str, frozenset[str]]) -> tuple[Wave, ...]:
    """`after` maps the id of a step to those whose end it waits for, on whatever host.

    Within a wave each host works through its own steps in order, so only what crosses hosts, or
    goes against that order, costs a wave. A circle in `after` is a defect and raises
    RecursionError.
    """

    @cache
    def number(step: str) -> int:
        return 1 + max((number(needed) for needed in after.get(step, ())), default=0)

    waves: dict[int, list[Step]] = {}
    for step in steps:
        waves.setdefault(number(step.id), []).append(step)
    # The sort is stable: steps of one ref and order stay as their kind has put them.
    return tuple(
        Wave(number=at, steps=tuple(sorted(waves[at], key=_place))) for at in sorted(waves)
    )


def _place(step: Step) -> tuple[str, int, Ref]:
    return (step.node, ORDERS.index(step.order), step.ref)
