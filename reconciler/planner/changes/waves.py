"""WHEN: the steps of a plan, in waves.

On one host, retire comes before provide, and provide before enrich. Across hosts, a wave waits for
the longest chain of what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache

from reconciler.model.plan.plan import Action, Order, Step, Wave
from reconciler.model.plan.verb import Verb
from reconciler.model.ref import Ref

ORDERS, ACTIONS = tuple(Order), tuple(Action)


def after_preparing(steps: Collection[Step]) -> Mapping[str, frozenset[str]]:
    """One host is prepared first, then the others; what is provided on a host waits for its own.

    What takes something away waits for no preparation.
    """
    prepares = sorted(
        (step for step in steps if step.verb == Verb.PREPARE), key=lambda one: one.node
    )
    of_node = {step.node: step.id for step in prepares}
    waits = {step.id: frozenset({prepares[0].id}) for step in prepares[1:]}
    for step in steps:
        if step.verb != Verb.PREPARE and step.order is not Order.RETIRE and step.node in of_node:
            waits[step.id] = frozenset({of_node[step.node]})
    return waits


def in_waves(
    steps: Iterable[Step],
    after: Mapping[str, frozenset[str]],
    last: Callable[[Step], bool] = lambda step: False,
) -> tuple[Wave, ...]:
    """The steps in waves.

    `after` maps the id of a step to those whose end it waits for, on whatever host; those that come
    `last` wait for all others besides, and nobody waits for them.

    Within a wave each host works through its own steps in order, so only what crosses hosts, or
    goes against that order, costs a wave. A circle in `after` is a defect and raises
    RecursionError.
    """

    @cache
    def number(step: str) -> int:
        return 1 + max((number(needed) for needed in after.get(step, ())), default=0)

    waves: dict[int, list[Step]] = {}
    late: list[Step] = []
    for step in steps:
        if last(step):
            late.append(step)
        else:
            waves.setdefault(number(step.id), []).append(step)
    behind = max(waves, default=0)
    for step in late:
        waves.setdefault(max(number(step.id), behind + 1), []).append(step)
    # The sort is stable: steps of one ref and order stay as their kind has put them.
    return tuple(
        Wave(number=at, steps=tuple(sorted(waves[at], key=_place))) for at in sorted(waves)
    )


def _place(step: Step) -> tuple[str, int, Ref]:
    return (step.node, ORDERS.index(step.order), step.ref)
