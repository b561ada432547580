"""Which hosts a plan prepares, in which order, and who waits for that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.plan.plan import Action, Plan
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.planner.placement.reasons import WORDS
from tests.planner.fleet import allocation, base_fleet, desired, node, sku, world
from tests.planner.walk import applied, line, make_plan

SKU = sku("slice-1", isolation=["account"])


def host(name: str, **changes: Any) -> dict[str, Any]:
    machine = {"machineId": name.encode().hex().ljust(32, "0"), "hostKeys": [f"ssh-ed25519 {name}"]}
    spec = {"isolation": "account", "address": "10.0.0.1", "root": "/", "identity": machine}
    made = node(name, 2, **{**spec, **changes})
    del made["spec"]["root"]
    return made


def fleet(*hosts: dict[str, Any], allocations: int = 1) -> Desired:
    names = ("Sku", "Node")
    rest = [one for one in base_fleet(0) if one["kind"] not in names]
    asked = [allocation(f"a{number}") for number in range(allocations)]
    return desired([*rest, SKU, *hosts, *asked])


def observed(of: Desired, platform: dict[str, str] | None = None, **others: Observation) -> World:
    """Every host answers as itself, and shows these named facts."""
    seen = world(of).observations
    told = {"cgroup *": "listed", "cgroup fs": "cgroup2", **(platform or {})}
    answers = {
        name: replace(
            one, facts=replace(facts_of(one), platform=told, machine_id=machine(of, name))
        )
        for name, one in seen.items()
    }
    return world(of, observations={**answers, **others})


def facts_of(one: Observation) -> NodeFacts:
    assert one.facts is not None
    return one.facts


def machine(of: Desired, name: str) -> str:
    return str(of.resources[Ref("node", "", name)].spec.identity.machine_id)


def verbs(made: Plan) -> list[list[tuple[str, str]]]:
    return [[(step.node, step.verb) for step in wave.steps] for wave in made.waves]


def test_a_host_is_prepared_and_only_then_given_to_anybody() -> None:
    """Rule 6: one host first, then the others, and each allocation after its own host."""
    of = fleet(host("gpu01"), host("gpu02"), host("gpu03"))
    made = make_plan(of, observed(of))
    (first, second, *_) = verbs(made)
    assert first == [("gpu01", "node.prepare")]
    assert [one for one in second if one[1] == "node.prepare"] == [
        ("gpu02", "node.prepare"),
        ("gpu03", "node.prepare"),
    ]
    place = line(made, "allocation/vision/a0").placement
    assert place is not None
    provided = next(
        at for at, wave in enumerate(verbs(made)) if (place.node, "allocation.provide") in wave
    )
    prepared = next(
        at for at, wave in enumerate(verbs(made)) if (place.node, "node.prepare") in wave
    )
    assert provided > prepared
    told = line(made, "node/gpu01")
    assert told.action is Action.CREATE and told.facts["prepare"].startswith("never prepared")
    (claim,) = made.claims
    assert (claim.uid, claim.gid) == (20000, 20000)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"covers": ["s0", "s1"]}, "not_approved"),
        ({"admin": {"state": "unavailable", "reason": "PSU"}}, "node_unavailable"),
    ],
)
def test_a_host_that_nobody_approved_or_that_is_out_of_use_is_not_touched(
    changes: dict[str, Any], why: str
) -> None:
    """INV-09 INV-16: before a human's word nothing is written on a host."""
    of = fleet(host("gpu01", **changes))
    made = make_plan(of, observed(of))
    assert made.steps == ()
    problem = line(made, "allocation/vision/a0").problem
    assert problem is not None and problem.code == "sku_unavailable"
    assert WORDS[why] in problem.message


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"problem": "host_identity_changed", "message": "machine id x"}, "host_identity_changed"),
        ({"problem": "no_root_on_host", "message": "a password"}, "no_root_on_host"),
        ({"problem": "host_unreachable", "message": "no route"}, "host_unreachable"),
    ],
)
def test_a_host_that_cannot_be_prepared_is_refused_by_name(
    answer: dict[str, str], code: str
) -> None:
    """Rule 8: the others are prepared all the same."""
    of = fleet(host("gpu01"), host("gpu02"))
    silent = Observation(node="gpu01", at="2026-12-01T12:00:00Z", **answer)
    made = make_plan(of, observed(of, gpu01=silent))
    refused = line(made, "node/gpu01")
    assert refused.action is Action.BLOCKED and refused.problem is not None
    assert refused.problem.code == code and refused.problem.hint
    assert {step.node for step in made.steps} == {"gpu02"}


def test_a_host_without_cgroup_v2_is_refused() -> None:
    of = fleet(host("gpu01"))
    made = make_plan(of, observed(of, {"cgroup fs": "tmpfs"}))
    refused = line(made, "node/gpu01")
    assert refused.problem is not None and refused.problem.code == "cgroup_v2_required"
    assert made.steps == ()


def as_prepared(of: Desired, first: Plan, **named: str) -> World:
    """The state after `first`, in which hosts show what they were made to show, or `named`."""
    after = applied(first, observed(of))
    seen = {}
    for name, one in observed(of).observations.items():
        expected = after.recorded[Ref("node", "", name)].facts
        platform = {f"{key.partition(' ')[0]} *": "listed" for key in expected if key[0] != "/"}
        platform |= {key: str(fact) for key, fact in expected.items() if key[0] != "/"}
        paths = {key: str(fact) for key, fact in expected.items() if key[0] == "/"}
        facts = replace(facts_of(one), paths=paths, platform={**platform, **named})
        seen[name] = replace(one, facts=facts)
    return replace(after, observations=seen)


def test_what_was_prepared_and_shows_it_is_left_alone() -> None:
    """F-ANS-15: a second plan has nothing to do."""
    of = fleet(host("gpu01"), host("gpu02"), allocations=0)
    made = make_plan(of, as_prepared(of, make_plan(of, observed(of))))
    assert made.changes == () and made.steps == ()


def test_a_wall_that_does_not_show_is_put_up_again() -> None:
    of = fleet(host("gpu01"), allocations=0)
    state = as_prepared(of, make_plan(of, observed(of)), **{"sshd tenants": "passwords=yes"})
    made = make_plan(of, state)
    assert verbs(made) == [[("gpu01", "node.prepare")]]
    assert line(made, "node/gpu01").facts["prepare"].startswith("sshd tenants is passwords=yes")


def test_a_wall_that_cannot_be_seen_is_no_wall_and_no_reason_to_touch_the_host() -> None:
    """F-ANS-03: nobody is placed there, and nothing is written there."""
    bare = fleet(host("gpu01"), allocations=0)
    state = as_prepared(bare, make_plan(bare, observed(bare)), **{"sshd tenants": "unknown: gone"})
    made = make_plan(fleet(host("gpu01")), state)
    assert made.steps == ()
    problem = line(made, "allocation/vision/a0").problem
    assert problem is not None and "not prepared" in problem.message


def test_other_templates_prepare_anew() -> None:
    """Rule 21: after an upgrade hosts are made to show what this version writes."""
    of = fleet(host("gpu01"), allocations=0)
    state = as_prepared(of, make_plan(of, observed(of)))
    ref = Ref("node", "", "gpu01")
    older = {**state.recorded, ref: replace(state.recorded[ref], basis="sha256:older")}
    made = make_plan(of, replace(state, recorded=older))
    assert verbs(made) == [[("gpu01", "node.prepare")]]


def test_uids_go_on_where_they_stopped_and_gids_stay_with_projects() -> None:
    """Rule 15: never a number that somebody had."""
    of = fleet(host("gpu01"), allocations=2)
    state = observed(of)
    counters = replace(state.counters, least_uid=20041, gids={"vision": 20007}, least_gid=20009)
    made = make_plan(of, replace(state, counters=counters))
    assert sorted((claim.uid, claim.gid) for claim in made.claims) == [
        (20042, 20007),
        (20043, 20007),
    ]


def test_numbers_that_are_used_up_refuse_by_name() -> None:
    of = fleet(host("gpu01"))
    state = observed(of)
    made = make_plan(of, replace(state, counters=replace(state.counters, least_uid=59999)))
    problem = line(made, "allocation/vision/a0").problem
    assert problem is not None and problem.code == "uids_exhausted"
    assert made.claims == ()
