"""WHEN: orders on one host, and waves across hosts."""

from __future__ import annotations

import pytest

from reconciler.model.plan.plan import Order, Step, step_id
from reconciler.model.plan.verb import Verb
from reconciler.model.ref import Ref
from reconciler.planner.changes.waves import after_preparing, in_waves
from tests.harness.items import RawItem


def step(name: str, node: str = "gpu01", order: Order = Order.PROVIDE, verb: str = "v") -> Step:
    ref = Ref("allocation", "vision", name)
    return Step(
        id=step_id(node, verb, ref),
        verb=verb,
        node=node,
        ref=ref,
        order=order,
        item=RawItem(id=name),
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


def test_one_host_is_prepared_first_and_tenants_wait_for_their_own() -> None:
    """Rule 6: one host, then the others; who is provided there waits, who is revoked does not."""
    prepares = [step(node, node, verb=Verb.PREPARE) for node in ("gpu03", "gpu01", "gpu02")]
    steps = [
        *prepares,
        *(step("a", node) for node in ("gpu01", "gpu02", "gpu04")),
        step("b", "gpu02", Order.RETIRE),
    ]
    waves = in_waves(steps, after_preparing(steps))
    told = [[(s.node, s.verb == Verb.PREPARE, s.order) for s in wave.steps] for wave in waves]
    provide, retire = Order.PROVIDE, Order.RETIRE
    assert told == [
        [("gpu01", True, provide), ("gpu02", False, retire), ("gpu04", False, provide)],
        [("gpu01", False, provide), ("gpu02", True, provide), ("gpu03", True, provide)],
        [("gpu02", False, provide)],
    ]
