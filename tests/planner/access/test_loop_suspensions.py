"""The loop suspended: as a whole, for a project, a node or one ref, and never for a revocation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Plan
from reconciler.model.ref import Ref
from reconciler.model.state.world import Suspension, World
from tests.planner.changes.test_repair import HOME, KEYS, showing
from tests.planner.fleet import NOW, allocation, base_fleet, desired, grant, node, policy, user
from tests.planner.identity.test_render_hash import NEW_KEYS, templates
from tests.planner.walk import line, make_plan, settled, told

GOES = policy(automation={"allow": "destroys"})
FLEET = [GOES, *base_fleet(2)[1:]]
BEFORE = [*FLEET, *map(allocation, ("a00", "a01", "a02")), allocation("b00", project="nlp")]
AFTER = [
    *FLEET,
    allocation("a00", restart={"generation": 1}),
    allocation("a02"),
    allocation("new"),
    user("cem"),
    allocation("b00", project="nlp", labels={"x": "y"}),
]
CHANGES = {
    "allocation/vision/a00",
    "allocation/vision/a01",
    "allocation/vision/new",
    "allocation/nlp/b00",
    "user/cem",
}


def word(scope: str, **fields: Any) -> Suspension:
    values = {"scope": scope, "reason": "an audit", "actor": "olga", "since": format_moment(NOW)}
    return Suspension(**{**values, **fields})


def under(state: World, *scopes: str, **fields: Any) -> World:
    return replace(state, suspensions=tuple(word(scope, **fields) for scope in scopes))


def alone(documents: list[Any], state: World, **changes: Any) -> Plan:
    return make_plan(desired(documents), state, **{"unattended": True, **changes})


def held(made: Plan) -> set[str]:
    return {str(c.ref) for c in made.changes if c.problem and c.problem.code == "loop_suspended"}


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("loop", CHANGES),
        ("loop/project/vision", {ref for ref in CHANGES if "/vision/" in ref}),
        ("loop/allocation/vision/a00", {"allocation/vision/a00"}),
        ("loop/user/cem", {"user/cem"}),
        ("loop/project/other", set()),
        ("user/dana", set()),
    ],
)
def test_what_is_suspended_is_left_alone(scope: str, expected: set[str]) -> None:
    state = under(settled(BEFORE), scope)
    made = alone(AFTER, state)
    assert held(made) == expected
    assert held(make_plan(desired(AFTER), state)) == set()
    over = under(state, scope, until=format_moment(NOW))
    assert held(alone(AFTER, over)) == set()
    for ref in expected:
        problem = line(made, ref).problem
        assert problem and problem.message == f"{scope} is suspended by olga: an audit"
        assert problem.hint == f"gpuaas resume {scope} --reason TEXT"
        # Nobody approves it past that.
        assert line(made, ref).fingerprint == ""


def test_a_node_that_is_left_alone_gets_nobody_new() -> None:
    state = settled(BEFORE)
    places = {str(ref): one.node for ref, one in state.recorded.items() if one.node}
    made = alone(AFTER, under(state, "loop/node/gpu01"))
    there = {ref for ref in CHANGES & places.keys() if places[ref] == "gpu01"}
    assert there and held(made) == there
    assert "create allocation/vision/new gpu02/" in "\n".join(told(made))
    both = alone(AFTER, under(state, "loop/node/gpu01", "loop/node/gpu02"))
    problem = line(both, "allocation/vision/new").problem
    assert problem and problem.code == "sku_unavailable"


def test_a_suspension_has_an_end_that_plans_know_of() -> None:
    ends = format_moment(NOW + timedelta(hours=2))
    made = alone(AFTER, under(settled(BEFORE), "loop", until=ends))
    assert made.next_moment == ends
    assert (
        held(alone(AFTER, under(settled(BEFORE), "loop", until=ends), now=NOW + timedelta(hours=2)))
        == set()
    )


def test_nobody_keeps_access_by_it() -> None:
    """Rule 9: a key that is gone, a grant that is over and a suspension are not left alone."""
    before = [*BEFORE, grant("bo-on-a00", "a00", "bo")]
    state = under(settled(before), "loop")
    documents = [one for one in BEFORE if one["metadata"]["name"] != "ana"] + [user("ana", "desk")]
    made = alone(documents, state)
    assert held(made) == set()
    assert {"change user/ana", "forget grant/vision/bo-on-a00"} <= set(told(made))
    assert {"ana/laptop", "bo"} <= {who for step in made.steps for who in step.revokes}


def test_what_was_let_go_of_by_mistake_is_not_destroyed_meanwhile() -> None:
    """Whoever sees an accident says `suspend loop`, and what could come back still can."""
    state = settled(BEFORE)
    ref = Ref("allocation", "vision", "a01")
    over = format_moment(NOW - timedelta(minutes=1))
    recorded = {**state.recorded}
    recorded[ref] = replace(recorded[ref], phase=Phase.QUARANTINED, undo_until=over)
    state = replace(state, recorded=recorded)
    kept = [one for one in BEFORE if one["metadata"]["name"] != "a01"]
    assert "release allocation/vision/a01" in told(alone(kept, state))
    made = alone(kept, under(state, "loop"))
    assert (held(made), made.steps) == ({str(ref)}, ())
    recorded[ref] = replace(recorded[ref], phase=Phase.RELEASING)
    begun = alone(kept, under(replace(state, recorded=recorded), "loop/allocation/vision/a01"))
    assert (held(begun), begun.steps) == ({str(ref)}, ())


@pytest.mark.parametrize("scope", ["loop/allocation/vision/a00", "loop/project/vision"])
def test_another_name_leads_out_of_no_suspension(scope: str) -> None:
    """Else it is renamed, and released under its new name."""
    state = under(settled(BEFORE), scope)
    named = [allocation("b01", formerName="a00"), *map(allocation, ("a01", "a02"))]
    made = alone([*FLEET, *named, allocation("b00", project="nlp")], state)
    assert told(made) == ["rename allocation/vision/b01 loop_suspended"]


@pytest.mark.parametrize("scope", ["loop", "loop/node/gpu01", "loop/project/vision"])
@pytest.mark.parametrize(("kind", "is_held"), [(HOME, True), (KEYS, False)])
def test_repairs_wait_but_for_who_may_log_in(scope: str, kind: str, is_held: bool) -> None:
    one = [GOES, *base_fleet(1)[1:], allocation("a")]
    state = settled(one)
    recorded = state.recorded[Ref("allocation", "vision", "a")]
    (path,) = [key for key in recorded.facts if kind in key]
    broken = showing(state, {path: None})
    assert len(alone(one, broken).active) == 1
    made = alone(one, under(broken, scope))
    assert held(made) == ({"allocation/vision/a"} if is_held else set())
    assert bool(made.steps) is not is_held
    if is_held:
        assert made.changes[0].action == "repair"


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ({"allow": "safe"}, ""),
        ({"allow": "none"}, "held_by_policy"),
        ({"rules": [{"allow": "none", "projects": ["nlp"]}]}, ""),
    ],
)
def test_what_a_new_version_makes_otherwise_is_a_matter_of_policy(
    rules: dict[str, Any], code: str
) -> None:
    documents = [policy(automation=rules), *base_fleet(1)[1:], allocation("a")]
    state = settled(documents)
    (change,) = alone(documents, state, templates=templates(NEW_KEYS)).changes
    assert (change.problem.code if change.problem else "") == code
    assert change.cause == "rerendered"
    (change,) = alone(documents, under(state, "loop"), templates=templates(NEW_KEYS)).changes
    assert change.problem and change.problem.code == "loop_suspended"


def test_hosts_are_not_made_ready_meanwhile() -> None:
    documents = [*FLEET, node("gpu03", isolation="account", root="/")]
    del documents[-1]["spec"]["root"]
    made: Callable[..., Plan] = alone
    found = made(documents, under(settled(FLEET), "loop/node/gpu03"))
    assert held(found) == {"node/gpu03"}
