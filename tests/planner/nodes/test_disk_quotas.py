"""Shares of disks in plans: of a fleet from before them, of a node with more slots, as drift."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reconciler.model.plan.plan import Action, Risk
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from tests.planner.fleet import node, slot
from tests.planner.nodes.test_prepare import fleet, host, observed
from tests.planner.walk import applied, line, make_plan, told

REF = "allocation/vision/a0"


def settled(of: Desired) -> World:
    """Hosts that show all that was made on them."""
    state = observed(of)
    for _ in range(3):
        state = applied(make_plan(of, state), state)
    listed = {f"{word} *": "listed" for word in ("quota", "account", "subids")}
    seen = {
        name: replace(
            one, facts=replace(one.facts, platform={**(one.facts.platform or {}), **listed})
        )
        for name, one in state.observations.items()
        if one.facts is not None
    }
    return replace(state, observations=seen)


def showing(state: World, fact: str | None) -> World:
    recorded = state.recorded[Ref("allocation", "vision", "a0")]
    one = state.observations[recorded.node]
    assert one.facts is not None and one.facts.platform is not None
    platform: dict[str, Any] = {**one.facts.platform, f"quota {recorded.login}": fact}
    facts = replace(one.facts, platform={k: v for k, v in platform.items() if v is not None})
    seen = {**state.observations, recorded.node: replace(one, facts=facts)}
    return replace(state, observations=seen)


def test_a_fleet_from_before_shares_is_changed_in_place_once_and_interrupts_nobody() -> None:
    of = fleet(host("gpu01"))
    state = settled(of)
    assert told(make_plan(of, state)) == []
    ref = Ref("allocation", "vision", "a0")
    recorded = state.recorded[ref]
    facts = {key: fact for key, fact in recorded.facts.items() if not key.startswith("quota ")}
    assert facts != recorded.facts
    before = replace(recorded, facts=facts, basis="of an earlier+version")
    old = showing(replace(state, recorded={**state.recorded, ref: before}), None)
    made = make_plan(of, old)
    assert told(made) == [f"change {REF}"]
    assert line(made, REF).risk is Risk.SAFE
    assert [step.verb for step in made.steps] == ["allocation.provide"]
    assert told(make_plan(of, applied(made, old))) == []


def test_what_is_away_from_the_share_is_drift_and_put_right() -> None:
    of = fleet(host("gpu01"))
    state = showing(settled(of), "1 of 2, but no limit at /home by project, not 7 KiB and 7 files")
    made = make_plan(of, state)
    change = line(made, REF)
    assert (change.action, change.risk) == (Action.REPAIR, Risk.SAFE)
    assert "no limit at /home by project" in change.facts["drift"]
    assert [step.verb for step in made.steps] == ["allocation.provide"]
    assert told(make_plan(of, applied(made, state))) == []


def test_more_slots_make_every_share_of_the_node_another() -> None:
    """Else the shares of all that fit there would come to more than there is."""
    of = fleet(host("gpu01"))
    state = settled(of)
    before = dict(host("gpu01")["spec"])
    slots = [*before.pop("slots"), slot("gpu01", 2, 1)]
    del before["approvals"]
    grown = node("gpu01", slots, root="/", **before)
    del grown["spec"]["root"]
    larger = fleet(grown)
    made = make_plan(larger, state)
    provided = [step for step in made.steps if step.verb == "allocation.provide"]
    assert [step.item.account.node_slots for step in provided] == [3]
    assert Ref("node", "", "gpu01") in line(made, REF).caused_by
