"""The walk of a plan: what is kept, what is taken away, what is told, and what never changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.codec import decode, encode
from reconciler.model.host.capacity import ClaimState
from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Order, Plan, Risk
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Origin
from reconciler.planner.placement.explanation import explain
from reconciler.planner.placement.forecast import UNKNOWN
from tests.planner.fleet import (
    NOW,
    allocation,
    base_fleet,
    claim,
    desired,
    document,
    family,
    grant,
    node,
    policy,
    project,
    sku,
    slot,
    user,
    world,
)
from tests.planner.walk import allocation_ref, applied, line, make_plan, settled, told

A = allocation("a")
REF_A = "allocation/vision/a"
Documents = list[dict[str, Any]]


def with_changes(documents: Documents, *changed: Mapping[str, Any]) -> Documents:
    """The documents, each of `changed` in the place of the one with its kind and name."""
    new = {(d["kind"], d["metadata"]["name"]): dict(d) for d in changed}
    return [new.pop((d["kind"], d["metadata"]["name"]), d) for d in documents] + list(new.values())


def without(documents: Documents, kind: str, name: str) -> Documents:
    return [d for d in documents if (d["kind"], d["metadata"]["name"]) != (kind, name)]


FLEET = [*base_fleet(), A]
SHARED = [*FLEET, grant("g", "a", "bo")]


def keys_of(made: Plan, ref: str = REF_A) -> str:
    """The key file that the plan writes for an allocation."""
    (step,) = [s for s in made.steps if str(s.ref) == ref and s.verb == "access.sync"]
    (file,) = step.item.files
    return file.content


# What is applied is applied.


def test_the_plan_of_an_applied_plan_is_empty() -> None:
    """F-PLN-07 F-PLN-08: and says how much there was to compare."""
    made = make_plan(desired(SHARED), settled(SHARED))
    assert (made.changes, made.claims, made.waves) == ((), (), ())
    assert made.figures.unchanged == len(SHARED)


def test_a_create_claims_first_and_then_provides_and_opens() -> None:
    """PLC-06 LCH-09: nothing but claims, provide and access stands between git and a login."""
    made = make_plan(desired(FLEET))
    assert [step.verb for step in made.steps] == [
        "allocation.provide",
        "runtime.write_env_file",
        "access.sync",
    ]
    (intent,) = made.claims
    change = line(made, REF_A)
    assert (intent.node, intent.slot, intent.allocation_id) == ("gpu01", "s0", change.allocation_id)
    assert change.login == f"a-{change.allocation_id[:4]}"
    assert change.steps == tuple(step.id for step in made.steps)


def test_a_create_tells_what_is_made_and_what_does_not_last() -> None:
    """LCH-07: place, login, access, price, and that nothing outlives the release."""
    change = line(make_plan(desired(FLEET)), REF_A)
    assert change.placement is not None
    assert change.placement.why == "tightest fit of 2"
    assert change.facts["access"] == "ana (desk, laptop)"
    assert change.facts["login"] == f"nodes/gpu01/home/{change.login}"
    assert "nothing outlives" in change.facts["note"]
    assert change.price_per_hour == {"EUR": "2.10"}
    assert change.gpus == 1


def test_a_price_is_the_one_in_force() -> None:
    """Rule 18: exact decimals, by the newest entry that has begun."""
    prices = [
        {"from": "2026-01-01T00:00:00Z", "perGpuHour": "2.10", "currency": "EUR"},
        {"from": "2026-06-01T00:00:00Z", "perGpuHour": "0.100001", "currency": "EUR"},
        {"from": "2030-01-01T00:00:00Z", "perGpuHour": "9", "currency": "EUR"},
    ]
    documents = with_changes(FLEET, sku("slice-1", 1, prices=prices))
    assert line(make_plan(desired(documents)), REF_A).price_per_hour == {"EUR": "0.100001"}


# Releases and replaces.


def test_a_release_takes_access_away_first_and_tells_what_is_lost() -> None:
    """What was observed is told with its size; what was not is unknown, never 0."""
    state = settled(FLEET)
    recorded = state.recorded[allocation_ref("a")]
    made = make_plan(desired(base_fleet()), state)
    change = line(made, REF_A)
    assert [(s.verb, s.order) for s in made.steps] == [
        ("access.sync", Order.RETIRE),
        ("allocation.release", Order.RETIRE),
    ]
    assert change.risk is Risk.DESTROYS
    assert change.facts["lost"] == "home unknown, scratch unknown"
    assert change.price_per_hour == {"EUR": "-2.10"}
    assert made.figures.gpus_held_before - made.figures.gpus_held_after == 1
    seen = state.observations["gpu01"]
    facts = replace(
        seen.facts,
        sizes={f"/home/{recorded.login}": 41 << 30, f"/var/lib/gpuaas/scratch/{recorded.id}": 12},
        sessions={recorded.login: 2},
    )
    told_more = replace(state, observations={"gpu01": replace(seen, facts=facts)})
    change = line(make_plan(desired(base_fleet()), told_more), REF_A)
    assert change.facts["lost"] == "home 41.0 GiB, scratch 12 B"
    assert change.facts["ends"] == "access of ana · sessions 2 · GPU processes 0"


@pytest.mark.parametrize("facts", [{"sessions": None}, {"gpus": None}, {"sizes": None}])
def test_what_was_not_observed_is_unknown(facts: Mapping[str, Any]) -> None:
    """Nothing seen is not nothing there."""
    state = settled(FLEET)
    seen = state.observations["gpu01"]
    blind = replace(seen, facts=replace(seen.facts, **facts))
    change = line(
        make_plan(desired(base_fleet()), replace(state, observations={"gpu01": blind})), REF_A
    )
    label = {"sessions": "ends", "gpus": "ends", "sizes": "lost"}[next(iter(facts))]
    assert "unknown" in change.facts[label]


def test_a_replace_gives_up_the_old_place_only_once_the_new_one_stands() -> None:
    """Another id and login; a wave of its own for the release; the price by its difference."""
    state = settled(FLEET)
    before = state.recorded[allocation_ref("a")]
    wanted = desired(with_changes(FLEET, allocation("a", "slice-2")))
    made = make_plan(wanted, state)
    change = line(made, REF_A)
    assert change.allocation_id != before.id
    assert [(w.number, [s.verb for s in w.steps]) for w in made.waves] == [
        (1, ["allocation.provide", "runtime.write_env_file", "access.sync"]),
        (2, ["access.sync", "allocation.release"]),
    ]
    assert {s.item.id for s in made.waves[1].steps} == {before.id}
    assert len({step.id for step in made.steps}) == 5
    assert change.price_per_hour == {"EUR": "2.10"}
    assert make_plan(wanted, applied(made, state)).changes == ()


def test_a_replace_that_left_something_behind_is_finished() -> None:
    """The former allocation is given up by its own id; the new one is not touched."""
    state = settled(FLEET)
    old = claim("a", "gpu02", "s0", allocation_id="formerly", state=ClaimState.CLEANUP_BLOCKED)
    state = replace(state, claims=(*state.claims, old))
    made = make_plan(desired(FLEET), state)
    change = line(made, REF_A)
    assert change.action is Action.REPLACE
    assert {(s.node, s.item.id) for s in made.steps} == {("gpu02", "formerly")}
    assert change.allocation_id == state.recorded[allocation_ref("a")].id
    assert made.claims == ()


def test_a_failed_create_is_tried_again_on_its_own_claims() -> None:
    """PLC-06: same id, same slot, no second claim."""
    state = settled(FLEET)
    before = state.recorded[allocation_ref("a")]
    failed = {**state.recorded, before.ref: replace(before, phase=Phase.FAILED)}
    made = make_plan(desired(FLEET), replace(state, recorded=failed))
    change = line(made, REF_A)
    assert (change.action, change.allocation_id) == (Action.CREATE, before.id)
    assert change.login == before.login
    assert made.claims == ()
    assert [step.verb for step in made.steps] == [
        "allocation.provide",
        "runtime.write_env_file",
        "access.sync",
    ]


# Access follows people, keys, grants and time.


def test_a_new_key_is_a_line_of_the_user_and_a_sync_of_the_allocation() -> None:
    """A host item belongs to one resource; the allocation's line names the cause."""
    made = make_plan(
        desired(with_changes(FLEET, user("ana", "laptop", "desk", "new"))), settled(FLEET)
    )
    assert told(made) == [f"change {REF_A}", "change user/ana"]
    assert line(made, REF_A).caused_by == (Ref("user", "", "ana"),)
    assert [(s.verb, s.order) for s in made.steps] == [("access.sync", Order.RETIRE)]
    assert line(made, "user/ana").steps == ()
    assert keys_of(made).count("ssh-ed25519") == 3


def test_taking_one_key_out_leaves_the_others() -> None:
    """F-PLN-01: the difference names that key alone."""
    made = make_plan(desired(with_changes(FLEET, user("ana", "desk"))), settled(FLEET))
    assert [f.path for f in line(made, "user/ana").fields] == ["spec.keys[laptop]"]


@pytest.mark.parametrize(
    ("documents", "cause"),
    [
        (without(SHARED, "Grant", "g"), "grant/vision/g"),
        (with_changes(SHARED, user("bo", "desk", state="suspended")), "user/bo"),
        (with_changes(SHARED, project("vision", "ana")), "project/vision"),
    ],
)
def test_access_is_taken_away_with_its_cause(documents: Documents, cause: str) -> None:
    """A removed grant, a suspended person, a member who left."""
    state = settled(SHARED)
    made = make_plan(desired(documents), state)
    assert "bo/desk" not in keys_of(made)
    assert [str(ref) for ref in line(made, REF_A).caused_by] == [cause]
    assert make_plan(desired(documents), applied(made, state)).changes == ()


def test_a_grant_past_its_end_is_not_in_force() -> None:
    """Time alone is a cause, and the plan says when the next one comes."""
    state = settled(SHARED)
    wanted = desired(SHARED)
    assert make_plan(wanted, state).next_moment == "2026-12-20T00:00:00Z"
    made = make_plan(wanted, state, now=NOW + timedelta(days=30))
    assert told(made) == [f"change {REF_A}"]
    assert [str(ref) for ref in line(made, REF_A).caused_by] == ["grant/vision/g"]
    assert "bo/desk" not in keys_of(made)


def test_a_broken_file_of_somebody_shuts_nobody_out() -> None:
    """Rule 9: what cannot be read stays as it was recorded, for everybody who depends on it."""
    broken = "specs/user-ana.yaml"
    documents = without(with_changes(SHARED, user("bo", "desk", "new")), "User", "ana")
    made = make_plan(desired(documents, broken=frozenset({broken})), settled(SHARED))
    assert told(made)[-1] == "frozen user/ana revocation_unread"
    assert "ana/laptop" in keys_of(made)
    assert "bo/new" in keys_of(made)


def test_nothing_is_released_while_a_file_cannot_be_read() -> None:
    """F-REC-02: the document may have moved there from a file that is still in order."""
    documents = without(without(SHARED, "Allocation", "a"), "Grant", "g")
    made = make_plan(desired(documents, broken=frozenset({"specs/new.yaml"})), settled(SHARED))
    assert f"frozen {REF_A} resource_broken" in told(made)
    assert "bo/desk" not in keys_of(made)


def test_revocation_waits_for_no_clean_document() -> None:
    """Rule 9: an allocation with a broken file still loses the keys of who left."""
    documents = with_changes(without(SHARED, "Allocation", "a"), project("vision", "ana"))
    documents = without(documents, "Grant", "g")
    made = make_plan(desired(documents, frozen=frozenset({allocation_ref("a")})), settled(SHARED))
    assert f"frozen {REF_A} resource_broken" in told(made)
    assert f"change {REF_A}" in told(made)
    assert "bo/desk" not in keys_of(made)


def test_a_blocked_change_of_an_allocation_does_not_hold_up_a_revocation() -> None:
    """The part that is refused stays as recorded, the keys follow all the same."""
    documents = with_changes(
        without(SHARED, "Grant", "g"), allocation("a", storage=[{"name": "gone", "mode": "ro"}])
    )
    made = make_plan(desired(documents), settled(SHARED))
    assert f"blocked {REF_A} storage_missing" in told(made)
    assert "bo/desk" not in keys_of(made)
    (change,) = [c for c in made.active if str(c.ref) == REF_A]
    assert change.normal is not None
    assert "expiresAt" not in change.normal["spec"]


def test_a_grant_that_is_not_supported_opens_nothing() -> None:
    """A blocked change has no effect through others."""
    documents = [*FLEET, grant("g", "a", "bo", privilege="sudo")]
    made = make_plan(desired(documents), settled(FLEET))
    assert told(made) == ["blocked grant/vision/g not_yet_supported"]


def test_a_change_of_labels_touches_no_host() -> None:
    made = make_plan(
        desired(with_changes(FLEET, allocation("a", labels={"team": "x"}))), settled(FLEET)
    )
    assert told(made) == [f"change {REF_A}"]
    assert made.steps == ()


def test_another_owner_renews_what_names_him() -> None:
    made = make_plan(desired(with_changes(FLEET, allocation("a", owner="bo"))), settled(FLEET))
    assert {s.verb for s in made.steps} == {"access.sync", "allocation.provide"}
    assert made.waves[0].steps[0].verb == "access.sync"


# Names and guards.


def test_a_rename_keeps_slot_id_login_and_keys() -> None:
    """F-PLN-04: and the grants that follow it may name it anew."""
    state = settled(SHARED)
    documents = [
        *without(without(SHARED, "Allocation", "a"), "Grant", "g"),
        allocation("b", formerName="a"),
        grant("g", "b", "bo"),
    ]
    made = make_plan(desired(documents), state)
    assert told(made) == ["change grant/vision/g", "rename allocation/vision/b"]
    assert made.waves == ()
    after = applied(made, state)
    before, now = state.recorded[allocation_ref("a")], after.recorded[allocation_ref("b")]
    assert (now.id, now.login, now.slots) == (before.id, before.login, before.slots)
    assert [claim.ref.name for claim in after.claims] == ["b"]
    assert make_plan(desired(documents), after).changes == ()


def test_a_rename_swallows_no_revocation() -> None:
    """F-GRT-02: what is taken away at the same time is taken away by the same plan."""
    state = settled(SHARED)
    documents = [
        *without(without(SHARED, "Allocation", "a"), "Grant", "g"),
        allocation("b", formerName="a"),
    ]
    made = make_plan(desired(documents), state)
    assert "rename allocation/vision/b" in told(made)
    assert "bo/desk" not in keys_of(made, "allocation/vision/b")
    assert make_plan(desired(documents), applied(made, state)).changes == ()


@pytest.mark.parametrize(
    ("documents", "blocked"),
    [
        (without(FLEET, "Node", "gpu01"), "node/gpu01 in_use"),
        (
            with_changes(FLEET, project("vision", "ana", "bo", tenant="acme")),
            "project/vision field_refused",
        ),
        (with_changes(FLEET, node("gpu01", root="elsewhere")), "node/gpu01 field_refused"),
        (
            with_changes(FLEET, node("gpu01", [slot("gpu01", 0, 1)])),
            "node/gpu01 field_refused",
        ),
        (
            with_changes(FLEET, family(gpu={"vendor": "nvidia", "model": "other", "memoryMiB": 1})),
            "node_family/h100 field_refused",
        ),
        (with_changes(FLEET, sku("slice-1", 2)), "sku/slice-1 field_refused"),
    ],
)
def test_what_tenants_stand_on_does_not_move(documents: Documents, blocked: str) -> None:
    """in_use and field_refused: nothing is taken away from under a claim."""
    made = make_plan(desired(documents), settled(FLEET))
    assert told(made) == [f"blocked {blocked}"]


def test_what_is_not_claimed_may_change() -> None:
    slots = [slot("gpu01", n, n // 4) for n in range(8)]
    slots[7]["numa"] = 0
    made = make_plan(desired(with_changes(FLEET, node("gpu01", slots))), settled(FLEET))
    assert told(made) == ["change node/gpu01"]
    assert [f.path for f in line(made, "node/gpu01").fields] == [
        "spec.approvals[2026-01-01T00:00:00Z].digest",
        "spec.slots[s7].numa",
    ]


def test_a_user_whom_a_frozen_allocation_names_is_kept() -> None:
    """in_use: its document refers to nobody any more, so it stays as recorded, and so do they."""
    documents = without(without(FLEET, "User", "ana"), "Allocation", "a")
    made = make_plan(desired(documents, frozen=frozenset({allocation_ref("a")})), settled(FLEET))
    assert "blocked user/ana in_use" in told(made)


def test_a_whole_project_can_go_in_one_commit() -> None:
    """What leaves together is in nobody's way."""
    documents = [
        d for d in SHARED if "vision" not in (d["metadata"].get("project"), d["metadata"]["name"])
    ]
    made = make_plan(desired(documents), settled(SHARED))
    assert told(made) == [
        f"release {REF_A}",
        "forget grant/vision/g",
        "forget project/vision",
    ]


def test_an_empty_spec_root_is_no_empty_fleet() -> None:
    """Rule above all rules: nothing seen is not nothing there."""
    empty = Problem(code="spec_root_empty", message="no documents")
    made = make_plan(desired([], problems=(empty,)), settled(FLEET))
    assert {change.action for change in made.changes} == {Action.FROZEN}
    assert made.problems == (empty,)
    assert made.steps == ()


def test_deprecated_is_for_those_who_have_it() -> None:
    """PLC-17: what runs stays, nothing new comes."""
    documents = [*with_changes(FLEET, sku("slice-1", 1, state="deprecated")), allocation("b")]
    made = make_plan(desired(documents), settled(FLEET))
    assert told(made) == ["blocked allocation/vision/b sku_deprecated", "change sku/slice-1"]


def test_not_entitled_comes_before_any_place() -> None:
    """PLC-17: and says what one is entitled to."""
    poor = project("vision", "ana", "bo", entitlements={"skus": ["whole"]})
    made = make_plan(desired(with_changes(FLEET, poor)))
    assert line(made, REF_A).problem.code == "not_entitled"
    assert "whole" in line(made, REF_A).problem.hint


def test_what_needs_something_blocked_is_blocked_for_its_reason() -> None:
    """A SKU that is not recorded sells nothing."""
    documents = with_changes(FLEET, sku("slice-1", 1, isolation=["directory", "vm"]))
    made = make_plan(desired(documents))
    assert line(made, REF_A).problem.code == "not_yet_supported"
    assert "sku/slice-1" in line(made, REF_A).problem.message


def test_quota_counts_claims_until_they_are_free() -> None:
    """PLC-17: pending releases count, a cleanup that is blocked does not."""
    tight = with_changes([*base_fleet(), allocation("b")], project("vision", "ana", "bo", gpus=1))
    for state, code in (
        (ClaimState.RELEASING, "quota_exceeded"),
        (ClaimState.CLEANUP_BLOCKED, None),
    ):
        wanted = desired(tight)
        held = world(wanted, claims=(claim("x", "gpu01", "s0", state=state),))
        problem = line(make_plan(wanted, held), "allocation/vision/b").problem
        assert (problem.code if problem else None) == code


def test_a_silent_node_is_named_with_what_stays_on_it() -> None:
    """Nothing seen is not nothing there: since when, and who keeps a place on it."""
    state = settled(FLEET)
    seen = state.observations["gpu01"]
    lost = replace(seen, facts=None, problem="unreachable", message="no route to host")
    lost = replace(lost, unreachable_since="2026-11-27T08:52:00Z")
    figures = make_plan(desired(FLEET), replace(state, observations={"gpu01": lost})).figures
    assert figures.silent == {
        "gpu01": "no route to host, since 2026-11-27T08:52:00Z; 1 allocation keeps its claims",
        "gpu02": "never observed",
    }
    assert make_plan(desired(FLEET), state).figures.silent == {}


# No fit, waiting, and explanations.


def test_no_fit_is_exactly_one_code_and_no_claim() -> None:
    """PLC-05: with the count of nodes for each rule, the nearest, and the place in the line."""
    documents = [*base_fleet(1), allocation("a", "slice-8"), allocation("b", "slice-4")]
    wanted = desired(documents)
    since = format_moment(NOW - timedelta(hours=3))
    held = tuple(claim("x", "gpu01", f"s{n}") for n in range(5))
    other = Ref("allocation", "vision", "x")
    state = world(wanted, claims=held, waiting={allocation_ref("b"): since})
    made = make_plan(wanted, state)
    change = line(made, "allocation/vision/b")
    assert change.problem is not None
    assert change.problem.code == "sku_unavailable"
    assert change.problem.message == "1 node: 1 too few free slots"
    assert change.facts["nearest"] == "gpu01 has 3 of 4 free"
    assert change.summary == "waiting 3 h, position 1 of 2, gives up 2026-12-02T09:00:00Z"
    assert change.facts["fits"] == "once what leaves is proved gone, in a plan after that"
    last = line(made, "allocation/vision/a")
    assert last.facts["fits"] == UNKNOWN, "no slot is told twice"
    assert made.waiting == (allocation_ref("b"), allocation_ref("a"))
    assert made.claims == ()
    assert {step.ref for step in made.steps} == {other}


def test_explain_sees_what_the_plan_gives_to_others_and_its_own_place_as_free() -> None:
    """PLC-05: what the plan refuses is not said to fit, and a place is explained as it was won."""
    wanted = desired([*base_fleet(1), allocation("a", "slice-8"), allocation("b", "slice-4")])
    state = world(wanted)
    made = make_plan(wanted, state)
    refused = line(made, "allocation/vision/b")
    assert refused.problem is not None
    assert [c.rule for c in explain(wanted, state, NOW, refused.ref, made)] == [
        "too_few_free_slots"
    ]
    stays = settled(FLEET)
    unchanged = make_plan(desired(FLEET), stays)
    fits = explain(desired(FLEET), stays, NOW, allocation_ref("a"), unchanged)
    here = stays.recorded[allocation_ref("a")]
    assert (fits[0].rule, fits[0].node, fits[0].slots) == ("", here.node, here.slots)


def test_explain_shows_every_node_of_a_request() -> None:
    """PLC-01: without planning anything."""
    wanted = desired(FLEET)
    found = explain(wanted, world(wanted), NOW, allocation_ref("a"))
    assert [(c.node, c.rule) for c in found] == [("gpu01", ""), ("gpu02", "")]
    assert explain(wanted, world(wanted), NOW, Ref("user", "", "ana")) == ()


# Scope, holding, determinism.


def test_only_names_what_it_touches() -> None:
    """F-PLN-03: the person's change, and the allocation that follows from it by name."""
    documents = [
        *with_changes(FLEET, user("ana", "desk"), project("vision", "ana", "bo", gpus=3)),
        allocation("b"),
    ]
    made = make_plan(desired(documents), settled(FLEET), only=("user/ana",))
    assert told(made) == [f"change {REF_A}", "change user/ana"]
    assert "ana/laptop" not in keys_of(made)


def test_what_is_not_asked_for_has_no_effect_through_others() -> None:
    """F-PLN-03: a key more waits with the person that was left out."""
    more = user("ana", "laptop", "desk")
    documents = with_changes(FLEET, more, allocation("a", labels={"x": "y"}))
    made = make_plan(desired(documents), settled(FLEET), only=(REF_A,))
    assert told(made) == [f"change {REF_A}"]
    assert made.steps == ()


def test_only_brings_what_was_never_applied_and_is_needed() -> None:
    """F-REAL-23: a first apply of one allocation makes all that it refers to, and no more."""
    others = [allocation("b"), user("cem", "laptop")]
    wanted = desired([*FLEET, *others])
    made = make_plan(wanted, world(wanted), only=(REF_A,))
    assert line(made, REF_A).problem is None
    refs = {str(change.ref) for change in made.changes}
    assert refs >= {REF_A, "policy/fleet", "project/vision", "user/ana", "sku/slice-1"}
    assert not refs & {"allocation/vision/b", "user/cem"}
    nodes = {ref for ref in refs if ref.startswith("node/")}
    assert nodes == {f"node/{claim.node}" for claim in made.claims}


EARLIER = user("ana", "laptop")
EARLIER["spec"]["keys"][0]["expiresAt"] = "2027-01-01T00:00:00Z"
SHUT = user("ana", "laptop")
SHUT["spec"]["state"] = "suspended"


@pytest.mark.parametrize("shut", [SHUT, user("ana", "desk"), EARLIER])
def test_only_brings_what_takes_access_away(shut: dict[str, Any]) -> None:
    """F-REAL-23, rule 9: who is suspended, or whose grant or key has gone, stays in nowhere."""
    documents = with_changes(FLEET, shut, allocation("a", labels={"x": "y"}))
    made = make_plan(desired(documents), settled(FLEET), only=(REF_A,))
    assert told(made) == [f"change {REF_A}", "change user/ana"]
    assert made.steps


def test_only_takes_the_short_form_and_refuses_what_is_nowhere() -> None:
    """F-PLN-03: a typing mistake limits nothing to nothing."""
    made = make_plan(desired(FLEET), settled(SHARED), only=("vision/a",))
    assert line(made, REF_A).action is Action.CHANGE
    with pytest.raises(ProblemError) as caught:
        make_plan(desired(FLEET), only=("vision/nobody", "what?"))
    assert [p.code for p in caught.value.problems] == ["only_unmatched"] * 2


def test_what_is_held_has_no_steps_and_says_what_it_would_be() -> None:
    made = make_plan(desired(base_fleet()), settled(FLEET), hold_above=Risk.INTERRUPTS)
    change = line(made, REF_A)
    assert (change.action, change.problem.code) == (Action.RELEASE, "held_for_approval")
    assert (made.steps, made.active) == ((), ())


def test_the_order_of_files_and_rows_is_irrelevant() -> None:
    """Determinism: same input in another order, same bytes."""
    documents = [*SHARED, allocation("b", "slice-4"), allocation("c", "whole")]
    state = settled(SHARED)
    forth = make_plan(desired(documents), state)
    turned = replace(
        state,
        recorded=dict(reversed(state.recorded.items())),
        claims=tuple(reversed(state.claims)),
        observations=dict(reversed(state.observations.items())),
    )
    back = desired(reversed(documents))
    back = replace(back, digest=desired(documents).digest)
    made = make_plan(back, turned)
    assert made.fingerprint == forth.fingerprint
    assert encode(made) == encode(forth)


def test_ages_are_no_part_of_the_fingerprint() -> None:
    """F-PLN-05: only what changes a step makes a plan stale."""
    wanted, state = desired([*FLEET, allocation("b")]), settled(FLEET)
    first = make_plan(wanted, state)
    later = make_plan(wanted, state, now=NOW + timedelta(minutes=5), leases_from=NOW)
    assert first.fingerprint == later.fingerprint
    assert first.figures.observed_age != later.figures.observed_age
    moved = make_plan(wanted, replace(state, serial=state.serial + 1))
    assert moved.fingerprint != first.fingerprint


def test_a_plan_survives_its_file() -> None:
    """Style 2: data only; read back from JSON it is the same plan."""
    made = make_plan(desired(SHARED))
    assert decode(Plan, json.loads(json.dumps(encode(made)))) == made


def test_what_is_blocked_carries_nothing_of_its_document() -> None:
    """F-PLN-06: no value of a spec that is not applied stands in the plan, however it is told."""
    members = [{"allocation": "a", "role": "head"}]
    params = {"HF_TOKEN": "hunter2-hunter2"}
    spec = {"manifest": "nb", "version": "1", "members": members, "params": params}
    made = make_plan(desired([*FLEET, document("App", "nb", spec, "vision")]))
    assert line(made, "app/vision/nb").problem.code == "not_yet_supported"
    assert "hunter2" not in json.dumps(encode(made))


def test_placement_looks_at_claims_and_never_at_views() -> None:
    """OBJ-15 PLC-08: a node with every slot claimed is full, whatever was recorded."""
    wanted = desired(FLEET)
    held = tuple(claim("x", name, f"s{n}") for name in ("gpu01", "gpu02") for n in range(8))
    made = make_plan(wanted, world(wanted, claims=held))
    assert line(made, REF_A).problem.code == "sku_unavailable"


def test_origin_and_place_of_each_line_are_told() -> None:
    """STM-01: the file, its last commit, and who wrote it."""
    made = make_plan(desired(FLEET))
    change = line(made, REF_A)
    assert (change.file, change.line) == ("specs/allocation-vision-a.yaml", 1)
    assert change.origin == Origin(commit="c0ffee", author="Ana", email="ana@corp.example")


def test_evidence_that_is_old_stops_new_placement_only() -> None:
    """INV-10 F-PLC-02: by the age that the policy sets."""
    documents = [*with_changes(FLEET, policy(evidence={"maxAgeMinutes": 10})), allocation("b")]
    later = NOW + timedelta(minutes=11)
    made = make_plan(desired(documents), settled(FLEET), now=later)
    assert told(made) == ["blocked allocation/vision/b sku_unavailable", "change policy/fleet"]
    assert "2 observed too long ago" in line(made, "allocation/vision/b").problem.message
