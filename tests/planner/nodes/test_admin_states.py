"""What an operator means with a node: who stays, who moves, what counts no more (rule 11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.plan.plan import Plan, Risk
from reconciler.model.state.world import World
from tests.planner.fleet import allocation, base_fleet, desired, node, project
from tests.planner.walk import allocation_ref, applied, line, make_plan, settled

A, B = allocation_ref("a"), allocation_ref("b")
ONE, TWO = allocation("a"), allocation("b")
OTHERS = [d for d in base_fleet(nodes=1, slots=2) if d["kind"] != "Node"]


def fleet(gpu01: dict[str, Any] | None = None, *more: dict[str, Any]) -> list[Any]:
    first = node("gpu01", 2, **({"admin": gpu01} if gpu01 else {}))
    return [*OTHERS, first, node("gpu02", 2), *more]


@pytest.fixture
def world() -> World:
    return settled(fleet(None, ONE))


def planned(world: World, *documents: dict[str, Any], admin: dict[str, Any] | None = None) -> Plan:
    return make_plan(desired(fleet(admin, *documents)), world)


DRAINING = {"state": "draining", "reason": "driver"}
EVACUATING = {"state": "evacuating", "reason": "driver"}
LOST = {"state": "lost", "reason": "burnt", "attestedBy": "olga"}


def node_of(plan: Plan, ref: str) -> str:
    placement = line(plan, ref).placement
    return placement.node if placement else ""


def test_a_drained_node_keeps_whom_it_has_and_takes_nobody_by_any_path(world: World) -> None:
    """F-PLC-11, PLC-13: new, changed, grown, restarted in place; and undrained again."""
    first = world.recorded[A].node
    assert first == "gpu01", "the tightest fit"
    drained = applied(planned(world, ONE, admin=DRAINING), world)
    assert drained.recorded[A].node == "gpu01"

    assert node_of(planned(drained, ONE, TWO, admin=DRAINING), str(B)) == "gpu02"
    again = planned(drained, allocation("a", access=["ana", "bo"]), admin=DRAINING)
    assert node_of(again, str(A)) == "gpu01" and line(again, str(A)).problem is None
    moved = planned(drained, allocation("a", "slice-2"), admin=DRAINING)
    assert node_of(moved, str(A)) == "gpu02", "even what was there before goes elsewhere"
    restart = allocation("a", restart={"generation": 1, "reason": "hung"})
    started = line(planned(drained, restart, admin=DRAINING), str(A))
    assert (started.action, started.problem) == ("restart", None)
    assert started.placement is not None and started.placement.node == "gpu01"
    back = applied(planned(drained, ONE), drained)
    assert node_of(planned(back, ONE, TWO), str(B)) == "gpu01"


def test_an_evacuated_node_moves_its_tenants_and_each_move_is_asked_for(world: World) -> None:
    """Rule 11: a new place first; held without a consent; where there is none, it waits."""
    moving = planned(world, ONE, admin=EVACUATING)
    change = line(moving, str(A))
    assert (change.action, change.risk) == ("replace", Risk.DESTROYS)
    assert change.placement is not None and change.placement.node == "gpu02"
    held = make_plan(desired(fleet(EVACUATING, ONE)), world, hold_above=Risk.SAFE)
    problem = line(held, str(A)).problem
    assert problem is not None and problem.code == "held_for_approval"
    after = applied(moving, world)
    assert (after.recorded[A].node, len(after.claims)) == ("gpu02", 1)
    assert not make_plan(desired(fleet(EVACUATING, ONE)), after).active

    full = allocation("b", "slice-2")
    there = settled(fleet(None, ONE, full))
    (leaving,) = (ref for ref, one in there.recorded.items() if one.node == "gpu01")
    stays = line(planned(there, ONE, full, admin=EVACUATING), str(leaving))
    assert stays.problem is not None and stays.problem.code == "release_first"


def test_a_change_and_a_move_are_one_line(world: World) -> None:
    wanted = allocation("a", access=["ana", "bo"])
    moving = planned(world, wanted, admin=EVACUATING)
    assert line(moving, str(A)).action == "replace"
    after = applied(moving, world)
    assert after.recorded[A].normal["spec"]["access"] == ["ana", "bo"]


def test_what_is_lost_keeps_its_claims_and_leaves_the_quota(world: World) -> None:
    """Rule 11: its slots are never free; the project may have as many elsewhere."""
    tight = project("vision", "ana", quota={"gpus": 1})
    documents = [tight if d["metadata"]["name"] == "vision" else d for d in fleet(None, ONE)]
    before = settled(documents)
    wanted = [*documents, TWO]
    refused = line(make_plan(desired(wanted), before), str(B)).problem
    assert refused is not None and refused.code == "quota_exceeded"
    lost = [node("gpu01", 2, admin=LOST) if d["metadata"]["name"] == "gpu01" else d for d in wanted]
    plan = make_plan(desired(lost), before)
    assert node_of(plan, str(B)) == "gpu02" and line(plan, str(B)).problem is None
    after = applied(plan, before)
    assert {(c.ref, c.node) for c in after.claims} == {(A, "gpu01"), (B, "gpu02")}


def test_a_lost_host_that_answers_again_lets_nobody_in(world: World) -> None:
    """Rule 11: it is fenced before anything else, and named; a silent one is asked for nothing."""
    silent = {
        name: replace(seen, facts=None, problem="host_unreachable") if name == "gpu01" else seen
        for name, seen in world.observations.items()
    }
    gone = replace(world, observations=silent)
    quiet = planned(gone, ONE, admin=LOST)
    assert [step.node for step in quiet.steps] == []
    lost = replace(applied(quiet, gone), observations=world.observations)
    fencing = planned(lost, ONE, admin=LOST)
    (step,) = fencing.steps
    assert (step.verb, step.node, step.revokes) == ("access.sync", "gpu01", ("ana",))
    assert step.item.files[0].content.count("ssh-ed25519") == 0
    fenced = applied(fencing, lost)
    assert not planned(fenced, ONE, admin=LOST).active
    back = planned(fenced, ONE)
    assert [step.verb for step in back.steps] == ["access.sync"], "and in again by a commit"
