"""Inventory: what specs do not name, and what they say otherwise, is offered to nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.plan.plan import Action, Plan
from reconciler.model.ref import Ref
from tests.planner.fleet import allocation, base_fleet, desired, node, slot
from tests.planner.walk import line, make_plan, settled

A = allocation("a")
NODE = Ref("node", "", "gpu01")
Spec = dict[str, Any]


def fleet(of: Mapping[str, Any]) -> list[Spec]:
    """One node of two slots, the first of which is held."""
    return [*base_fleet(0), dict(of), A]


BEFORE = fleet(node("gpu01", 2))


def with_second(changed: Mapping[str, Any] | None) -> list[Spec]:
    """Another request, and what has become of the node since the first one was placed."""
    kept = [one for one in BEFORE if one["kind"] != "Node"]
    return [*kept, *([dict(changed)] if changed else []), allocation("b")]


def refused_for(made: Plan, name: str = "b") -> str:
    change = line(made, f"allocation/vision/{name}")
    assert change.problem is not None, f"it was given {change.placement}"
    return change.problem.message


def test_a_node_that_no_spec_names_keeps_its_tenant_and_takes_nobody() -> None:
    """F-REAL-03: its file is gone, somebody is on it, and its second slot is nobody's."""
    made = make_plan(desired(with_second(None)), settled(BEFORE))
    assert "not offered by specs any more" in refused_for(made)
    kept = line(made, "node/gpu01")
    assert kept.problem is not None
    assert (kept.action, kept.problem.code) == (Action.BLOCKED, "in_use")
    assert not [c for c in made.changes if str(c.ref) == "allocation/vision/a"]


def shrunk(**changes: Any) -> Spec:
    """The held slot is taken out, which is refused; and the free one is changed."""
    return node("gpu01", [slot("gpu01", 1, 1, **changes)])


CHANGES: Mapping[str, Callable[[], Spec]] = {
    "the free slot is taken out": lambda: node("gpu01", [slot("gpu01", 5)]),
    "the free slot is disabled": lambda: shrunk(disabled={"reason": "smoke"}),
    "the free slot has another card": lambda: shrunk(gpu=slot("gpu09", 1)["gpu"]),
    "nobody approves the free slot": lambda: node("gpu01", [slot("gpu01", 1, 1)], covers=["host"]),
    "the host is drained": lambda: node(
        "gpu01", [slot("gpu01", 1, 1)], admin={"state": "draining", "reason": "smoke"}
    ),
    "nobody approves the host": lambda: node("gpu01", [slot("gpu01", 1, 1)], covers=["s1"]),
    "the host is shared by others": lambda: node("gpu01", [slot("gpu01", 1, 1)], sharing="project"),
}


@pytest.mark.parametrize("how", CHANGES)
def test_what_a_refused_change_takes_away_is_not_given_out(how: str) -> None:
    """F-REAL-03: what is held stays, and what is free is offered only as both say."""
    made = make_plan(desired(with_second(CHANGES[how]())), settled(BEFORE))
    assert "not offered by specs any more" in refused_for(made)
    node_line = line(made, "node/gpu01")
    assert node_line.problem is not None
    assert not [c for c in made.changes if str(c.ref) == "allocation/vision/a"]


def test_what_both_name_is_given_out() -> None:
    """The free slot is as it was, whatever is refused of the held one."""
    made = make_plan(desired(with_second(shrunk())), settled(BEFORE))
    placement = line(made, "allocation/vision/b").placement
    assert placement is not None
    assert placement.slots == ("s1",)


@pytest.mark.parametrize(
    "hidden",
    [{"frozen": frozenset({NODE})}, {"broken": frozenset({"specs/node-gpu01.yaml"})}],
)
def test_a_node_whose_document_nobody_can_read_takes_nobody(hidden: Mapping[str, Any]) -> None:
    """F-REAL-03: unreadable or hidden, it may say anything."""
    of = replace(desired(with_second(None)), **hidden)
    made = make_plan(of, settled(BEFORE))
    assert "not offered by specs any more" in refused_for(made)
    assert line(made, "node/gpu01").action is Action.FROZEN


def test_a_change_that_is_not_asked_for_takes_away_as_well() -> None:
    """F-REAL-03: `--only` leaves the node as it was recorded."""
    documents = with_second(node("gpu01", [slot("gpu01", 0)]))
    made = make_plan(desired([*documents, A]), settled(BEFORE), only=("allocation/vision/b",))
    assert line(made, "allocation/vision/b").placement is None
    assert "too few free slots" in refused_for(made), "the one that is left is held"
