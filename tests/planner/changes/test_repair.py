"""Repairing: what we made is made again, and nothing of anybody's beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.plan.drift import Acceptance
from reconciler.model.plan.plan import Action, Plan, Risk, Step
from reconciler.model.ref import Ref
from reconciler.model.state.world import World
from tests.planner.fleet import (
    allocation,
    base_fleet,
    desired,
    grant,
    node,
    policy,
    sku,
    user,
    world,
)
from tests.planner.walk import allocation_ref, applied, line, make_plan, settled, told

A, REF = allocation_ref("a"), "allocation/vision/a"
FLEET = [*base_fleet(1), allocation("a")]
IDENTITY: dict[str, Any] = {"machineId": "0" * 32, "hostKeys": ["ssh-ed25519 AAAA"]}


def of(kind: str, world: World) -> str:
    """The path of the one thing of the allocation that is `kind`."""
    (found,) = [key for key in world.recorded[A].facts if kind in key]
    return found


def showing(world: World, paths: Mapping[str, str | None]) -> World:
    """The same world, whose one host shows these otherwise; None = gone."""
    seen = world.observations["gpu01"]
    assert seen.facts is not None
    shown = {**(seen.facts.paths or {}), **paths}
    facts = replace(seen.facts, paths={k: fact for k, fact in shown.items() if fact is not None})
    return replace(world, observations={"gpu01": replace(seen, facts=facts)})


def steps_of(made: Plan, ref: str = REF) -> list[Step]:
    return [step for step in made.steps if str(step.ref) == ref]


def notes(made: Plan) -> list[tuple[str, str]]:
    return [(note.topic, note.text) for note in made.notes]


KEYS, DESCRIPTOR, HOME, SCRATCH = "/ssh/", "/allocations/", "/home/", "/scratch/"
MENDED = {
    "a key file by hand": ({"/etc/gpuaas/ssh/": "file 0644 sha256:x"}, ["access.sync"]),
    "a key file that is gone": ({"/etc/gpuaas/ssh/": None}, ["access.sync"]),
    "a descriptor that is gone": ({"/etc/gpuaas/allocations/": None}, ["allocation.provide"]),
    "a home that is gone": ({HOME: None}, ["allocation.provide"]),
    "both": (
        {"/etc/gpuaas/ssh/": None, "/etc/gpuaas/allocations/": "file 0600 sha256:x"},
        ["access.sync", "allocation.provide"],
    ),
}


@pytest.mark.parametrize("case", MENDED)
def test_what_was_made_is_made_again_by_the_steps_that_made_it(case: str) -> None:
    """STM-07, STM-08: a line of its own, safe, and nothing left afterwards."""
    changes, verbs = MENDED[case]
    before = settled(FLEET)
    broken = showing(before, {of(kind, before): fact for kind, fact in changes.items()})
    made = make_plan(desired(FLEET), broken)
    change = line(made, REF)
    assert (change.action, change.risk, change.problem) == (Action.REPAIR, Risk.SAFE, None)
    assert sorted(step.verb for step in steps_of(made)) == verbs
    assert all(of(kind, before) in change.facts["drift"] for kind in changes)
    assert (made.claims, made.notes) == ((), ())
    after = applied(made, broken)
    assert after.recorded[A].facts == before.recorded[A].facts
    assert after.recorded[A].basis == before.recorded[A].basis
    rest = make_plan(desired(FLEET), after)
    assert (rest.changes, rest.notes, rest.confirmed) == ((), (), ())


def test_a_folder_that_its_tenant_opened_is_told_and_left() -> None:
    """STM-08: not by itself, and not beside what is put right."""
    before = settled(FLEET)
    home, descriptor = of(HOME, before), of("/etc/gpuaas/allocations/", before)
    opened = make_plan(desired(FLEET), showing(before, {home: "dir 0755"}))
    assert opened.changes == ()
    assert notes(opened) == [("user", f"{home} on gpu01 is dir 0755, not dir 0700")]
    both = make_plan(desired(FLEET), showing(before, {home: "dir 0755", descriptor: None}))
    (step,) = steps_of(both)
    assert home not in step.expected
    assert home not in {folder.path for folder in step.item.directories}
    assert descriptor in step.expected
    assert [topic for topic, _ in notes(both)] == ["user"]


def test_a_change_leaves_a_tenants_own_folder_as_well() -> None:
    before = settled(FLEET)
    home = of(HOME, before)
    wanted = desired([*base_fleet(1), allocation("a", owner="bo", access=["ana", "bo"])])
    made = make_plan(wanted, showing(before, {home: "dir 0755"}))
    assert line(made, REF).action is Action.CHANGE
    assert not any(home in step.expected for step in steps_of(made))
    assert [topic for topic, _ in notes(made)] == ["user"]


def test_a_change_brings_the_repair_with_it() -> None:
    """STM-07: one line, whatever else it does; a grant that comes changes only keys."""
    before = settled(FLEET)
    descriptor = of("/etc/gpuaas/allocations/", before)
    wanted = desired([*FLEET, grant("g", "a", "bo")])
    made = make_plan(wanted, showing(before, {descriptor: None}))
    assert set(told(made)) == {f"change {REF}", "create grant/vision/g"}
    assert {step.verb for step in steps_of(made)} == {"access.sync", "allocation.provide"}
    assert descriptor in line(made, REF).facts["drift"]


def test_what_leaves_is_not_mended() -> None:
    before = settled(FLEET)
    broken = showing(before, {of("/etc/gpuaas/allocations/", before): None})
    made = make_plan(desired(base_fleet(1)), broken)
    assert told(made) == [f"release {REF}"]
    assert made.notes == ()


def test_what_is_refused_is_mended_as_it_was_recorded() -> None:
    """Rule 9: a change that cannot be is no reason to leave a door open."""
    before = settled(FLEET)
    broken = showing(before, {of("/ssh/", before): "file 0644 sha256:x"})
    wanted = desired([*base_fleet(1), allocation("a", sku="slice-8", node="gpu09")])
    made = make_plan(wanted, broken)
    actions = {change.action for change in made.changes if change.ref == A}
    assert actions == {Action.BLOCKED, Action.REPAIR}
    assert [step.verb for step in steps_of(made)] == ["access.sync"]


def test_what_was_not_asked_for_is_told_and_not_mended() -> None:
    both = [*FLEET, allocation("b")]
    before = settled(both)
    broken = showing(before, {of("/ssh/", before): None})
    made = make_plan(desired(both), broken, only=("allocation/vision/b",))
    assert made.changes == ()
    assert [topic for topic, _ in notes(made)] == ["access"]


NEVER = {"platform": "/etc/gpuaas/allocations/", "access": "/ssh/"}


@pytest.mark.parametrize("kind", NEVER)
def test_the_policy_leaves_a_class_alone(kind: str) -> None:
    """STM-08: it is told, and the other one is put right all the same."""
    lenient = [policy(repair={kind: "never"}) if d["kind"] == "Policy" else d for d in FLEET]
    before = settled(lenient)
    made = make_plan(
        desired(lenient), showing(before, {of(key, before): None for key in NEVER.values()})
    )
    assert told(made) == [f"repair {REF}"]
    assert [topic for topic, _ in notes(made)] == [kind]
    (step,) = steps_of(made)
    assert of(NEVER[kind], before) not in step.expected


def test_what_somebody_accepted_stays_until_then_and_a_plan_knows_the_moment() -> None:
    before = settled(FLEET)
    path = of("/etc/gpuaas/allocations/", before)
    word = Acceptance(
        ref=A, key=path, owner="olga", reason="trial", until="2026-12-02T00:00:00Z", shown=None
    )
    gone = replace(showing(before, {path: None}), accepted_drift=(word,))
    made = make_plan(desired(FLEET), gone)
    assert made.changes == ()
    (note,) = made.notes
    assert note.accepted == "accepted by olga until 2026-12-02T00:00:00Z: trial"
    assert made.next_moment == "2026-12-02T00:00:00Z"


# Hosts.


def hosts(**rules: Any) -> list[dict[str, Any]]:
    kept = [d for d in base_fleet(1) if d["kind"] not in ("Node", "Sku", "Policy")]
    one = node("gpu01", address="gpu01.corp.example", isolation="account", identity=IDENTITY)
    del one["spec"]["root"]
    return [*kept, policy(**rules), one, sku("slice-1", isolation=["account"]), user("cem")]


def test_a_wall_that_was_taken_down_is_put_up_again() -> None:
    """STM-07: a unit that is gone; as one line that says it is drift."""
    made, ref = _without_a_wall(hosts())
    change = line(made, "node/gpu01")
    assert (change.action, change.risk) == (Action.REPAIR, Risk.SAFE)
    assert [step.verb for step in steps_of(made, str(ref))] == ["node.prepare"]
    assert made.notes == ()


def test_a_wall_is_left_down_where_the_policy_says_so() -> None:
    made, _ = _without_a_wall(hosts(repair={"platform": "never"}))
    assert made.changes == ()
    assert [note.topic for note in made.notes] == ["platform"]


def _without_a_wall(documents: list[dict[str, Any]]) -> tuple[Plan, Ref]:
    ref, wanted = Ref("node", "", "gpu01"), desired(documents)
    before = applied(make_plan(wanted, its_own(world(wanted))), its_own(world(wanted)))
    unit = next(key for key in before.recorded[ref].facts if key.endswith("/gpuaas-settle.service"))
    return make_plan(wanted, showing(before, {unit: None})), ref


def its_own(of: World) -> World:
    """The host says that it is the machine of its spec."""
    seen = of.observations["gpu01"]
    assert seen.facts is not None
    facts = replace(seen.facts, machine_id=IDENTITY["machineId"])
    return replace(of, observations={"gpu01": replace(seen, facts=facts)})
