"""WHEN: orders on one host, and waves across hosts."""

from __future__ import annotations

import pytest

from reconciler.model.plan import Order, Step, step_id
from reconciler.model.ref import Ref
from reconciler.planner.ordering import in_waves


def step(name: str, node: str = "gpu01", order: Order = Order.PROVIDE, verb: str = "v") -> Step:
    ref = Ref("allocation", "vision", name)
    return Step(
        id=step_id(node, verb, ref), verb=verb, node=node, ref=ref, order=order, item={"id": name}
    )


def test_on_a_host_taking_away_comes_first() -> None:
    """Rule 9: retire, provide, enrich; steps of one ref as their kind put them."""
    steps = [
        step("a", order=Order.ENRICH),
        step("b", verb="z"),
        step("b", verb="a"),
        step("c", order=Order.RETIRE),
    ]
    (wave,) = in_waves(steps, {})
    assert [(s.order, s.verb) for s in wave.steps] == [
        (Order.RETIRE, "v"),
        (Order.PROVIDE, "z"),
        (Order.PROVIDE, "a"),
        (Order.ENRICH, "v"),
    ]


def test_a_wave_waits_for_the_longest_chain() -> None:
    first, second, third = step("a"), step("b", "gpu02"), step("c", "gpu03")
    after = {second.id: frozenset({first.id}), third.id: frozenset({first.id, second.id})}
    waves = in_waves([third, second, first], after)
    assert [(w.number, [s.ref.name for s in w.steps]) for w in waves] == [
        (1, ["a"]),
        (2, ["b"]),
        (3, ["c"]),
    ]


def test_a_circle_is_a_defect() -> None:
    one, two = step("a"), step("b")
    with pytest.raises(RecursionError):
        in_waves([one, two], {one.id: frozenset({two.id}), two.id: frozenset({one.id})})


def test_no_steps_no_waves() -> None:
    assert in_waves([], {}) == ()
