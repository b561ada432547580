"""Restarts in a plan: once a generation, said before whom they hit, and proved by what shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.kinds.access.keys import key_lines
from reconciler.model.host.evidence import NodeFacts, Observation
from reconciler.model.plan.plan import Action, Change, Order, Plan, Risk, Step
from reconciler.model.plan.work import Receipt
from reconciler.model.state.world import World
from reconciler.planner.proof.verify_step import judge
from tests.planner.fleet import NOW, allocation, base_fleet, desired, node, sku, world
from tests.planner.walk import allocation_ref, applied, line, make_plan, settled

A = allocation_ref("a")
WANTED = {"generation": 1, "reason": "driver hang after NCCL test"}
ACCOUNTS: Mapping[str, Any] = {
    "address": "gpu01.corp.example",
    "isolation": "account",
    "root": "/",
    "identity": {"machineId": "ab" * 16, "hostKeys": ["SHA256:" + "A" * 43], "serial": ""},
}


def fleet(*allocations: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """One node, whose tenants have folders alone."""
    return [*base_fleet(1), *allocations]


def hosts(*allocations: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """One whole host, whose tenants have accounts."""
    kept = [one for one in base_fleet(1) if one["kind"] not in ("Node", "Sku")]
    skus = [sku("slice-1", isolation=["account"]), sku("whole", 0, isolation=["account"])]
    return [*kept, node("gpu01", 8, **ACCOUNTS), *skus, *allocations]


def lived_in(documents: list[Mapping[str, Any]]) -> World:
    """The world once these are applied to the host whose identity stands in the spec."""
    of = desired(documents)
    first = showing(world(of), machine_id=ACCOUNTS["identity"]["machineId"])
    return applied(make_plan(of, first), first)


def showing(before: World, **facts: Any) -> World:
    """The same world, in which the host says these things too."""
    seen = before.observations["gpu01"]
    assert seen.facts is not None
    told = replace(seen, facts=replace(seen.facts, **facts))
    return replace(before, observations={**before.observations, "gpu01": told})


def planned(before: World, documents: list[Mapping[str, Any]], **how: Any) -> tuple[Change, Plan]:
    made = make_plan(desired(documents), before, **how)
    return line(made, "allocation/vision/a"), made


def restart_step(made: Plan) -> Step:
    (step,) = [step for step in made.steps if step.verb == "allocation.restart"]
    return step


def test_a_raised_generation_is_one_restart_that_keeps_who_it_is() -> None:
    """RST-01, RST-02, ALC-06: id, login, claim and place stay; once a number."""
    before = settled(fleet(allocation("a")))
    change, made = planned(before, fleet(allocation("a", restart=WANTED)))
    assert (change.action, change.risk, change.problem) == (
        Action.RESTART,
        Risk.INTERRUPTS,
        None,
    )
    assert restart_step(made).item.generation == 1
    after = applied(made, before)
    assert after.claims == before.claims
    for name in ("id", "login", "node", "slots", "facts"):
        assert getattr(after.recorded[A], name) == getattr(before.recorded[A], name)
    again = make_plan(desired(fleet(allocation("a", restart=WANTED))), after)
    assert again.changes == ()


def test_another_reason_for_a_generation_that_was_reached_restarts_nothing() -> None:
    """RST-01: a reason has no effect of its own."""
    before = settled(fleet(allocation("a", restart=WANTED)))
    changed = {**WANTED, "reason": "it was the network"}
    change, made = planned(before, fleet(allocation("a", restart=changed)))
    assert (change.action, made.steps) == (Action.CHANGE, ())


def test_a_new_allocation_is_not_restarted_whatever_its_generation() -> None:
    change, made = planned(settled(fleet()), fleet(allocation("a", restart=WANTED)))
    assert change.action is Action.CREATE
    assert "allocation.restart" not in {step.verb for step in made.steps}


@pytest.mark.parametrize("now", [{}, {"restart": {"generation": 0}}], ids=["left out", "lowered"])
def test_a_generation_never_goes_down(now: Mapping[str, Any]) -> None:
    """Rule 23."""
    before = settled(fleet(allocation("a", restart=WANTED)))
    change, made = planned(before, fleet(allocation("a", **now)))
    assert change.problem is not None
    assert (change.problem.code, made.steps) == ("field_refused", ())
    assert "never goes down" in change.problem.message


def test_all_that_was_made_for_it_is_asserted_again_in_one_wave_on_a_part_of_a_host() -> None:
    """RST-05, RST-06, RST-08: access first, then the restart, then files; nothing else of it."""
    before = lived_in(hosts(allocation("a"), allocation("b")))
    change, made = planned(before, hosts(allocation("a", restart=WANTED), allocation("b")))
    (wave,) = made.waves
    assert [(step.verb, step.order) for step in wave.steps] == [
        ("access.sync", Order.RETIRE),
        ("allocation.restart", Order.PROVIDE),
        ("allocation.provide", Order.PROVIDE),
        ("runtime.write_env_file", Order.PROVIDE),
    ]
    assert {step.ref for step in wave.steps} == {A}, "the neighbour is not touched"
    item = restart_step(made).item
    slot = change.placement.slots[0] if change.placement else ""
    assert (item.reboot, item.gpus) == (False, (f"GPU-gpu01-{slot[1:]}",))
    assert item.uid == before.counters.uids[before.recorded[A].id]


def test_a_whole_host_is_rebooted_and_what_follows_waits_for_its_other_boot() -> None:
    """RST-05: keys are written before it, and once more after it."""
    before = lived_in(hosts(allocation("a", "whole")))
    change, made = planned(before, hosts(allocation("a", "whole", restart=WANTED)))
    assert [[step.verb for step in wave.steps] for wave in made.waves] == [
        ["access.sync", "allocation.restart"],
        ["allocation.provide", "runtime.write_env_file", "access.sync"],
    ]
    assert restart_step(made).item.reboot is True
    assert len(restart_step(made).item.gpus) == 8
    assert change.facts["kind"] == "reboot of gpu01, which is this allocation's alone"


def test_the_plan_names_everybody_and_everything_that_it_interrupts() -> None:
    """RST-04: sessions with their people, mounts, processes, and what runs on the cards."""
    documents = hosts(allocation("a"))
    before = lived_in(documents)
    of = desired(documents)
    first, *_ = key_lines(of.resources[A], of, NOW)
    login = before.recorded[A].login
    told = {
        login: (
            f"session 7 {first.fingerprint}",
            "session 8 SHA256:unknown",
            "session 9",
            "mount /home/x/data",
            "process 812 python",
        ),
        "other-aaaa": ("process 1 secret",),
    }
    change, _ = planned(showing(before, running=told), hosts(allocation("a", restart=WANTED)))
    assert change.facts["hits"] == (
        "session 7 (ana) · session 8 (a key of nobody's) · session 9 (opened without a key)"
        " · mount /home/x/data · process 812 python"
    )
    assert change.facts["on GPU"] == "nothing"
    assert change.facts["keeps"] == "login, keys, endpoint, home, scratch"
    assert change.facts["empties"] == "/tmp, /var/tmp, /dev/shm"
    assert f"all processes of {login}" in change.facts["kind"]
    assert change.summary.startswith('restart 0 -> 1 "driver hang after NCCL test" · ')


@pytest.mark.parametrize(
    ("running", "hits"),
    [
        (None, "unknown: gpu01 has not told what runs there"),
        ({}, "nothing runs there"),
    ],
)
def test_what_nobody_has_seen_is_unknown_and_not_nothing(
    running: Mapping[str, tuple[str, ...]] | None, hits: str
) -> None:
    before = showing(lived_in(hosts(allocation("a"))), running=running)
    change, _ = planned(before, hosts(allocation("a", restart=WANTED)))
    assert change.facts["hits"] == hits


@pytest.mark.parametrize(
    ("fact", "begun"),
    [
        (None, False),
        ("generation 0", False),
        ("generation 10", False),
        ("generation 1", True),
        ("generation 1 begun", True),
        ("generation 1 ordered, still in the boot before", True),
        ("unknown: no mark of a restart", False),
    ],
)
def test_what_its_host_has_begun_is_not_asked_for_a_second_time(
    fact: str | None, begun: bool
) -> None:
    """RST-01: after a crash the host says how far it is; consent that was given counts on."""
    before = lived_in(hosts(allocation("a")))
    id = before.recorded[A].id
    seen = showing(before, restarts={} if fact is None else {id: fact})
    now = hosts(allocation("a", restart=WANTED))
    change, made = planned(seen, now, hold_above=Risk.SAFE)
    assert (change.problem is None) is begun
    if change.problem is not None:
        assert (change.problem.code, made.steps) == ("held_for_approval", ())
    else:
        assert change.risk is Risk.SAFE
        assert "already" in change.facts["kind"]
        named = "nothing" if fact == "generation 1" else f"restart {id} ({fact})"
        assert change.facts["lacks"] == named
        # The host is asked for the same generation, of which it knows whether it is through.
        assert restart_step(made).item.generation == 1


def judged(made: Plan, facts: NodeFacts | None) -> str:
    step = restart_step(made)
    receipt = Receipt(step=step.id, node=step.node, verb=step.verb, ok=True, changed=True)
    outcome = judge(step, receipt, Observation(node="gpu01", at="", facts=facts))
    return outcome.problem.message if outcome.problem else "done"


def test_a_restart_is_done_only_when_the_host_shows_it_and_all_its_devices() -> None:
    """F-PLC-10: fewer or other devices than the claim are no end of a restart; they are named."""
    before = lived_in(hosts(allocation("a", "whole"), allocation("b", owner="bo")))
    id = before.recorded[A].id
    _, made = planned(before, hosts(allocation("a", "whole", restart=WANTED)))
    facts = showing(before, restarts={id: "generation 1"}).observations["gpu01"].facts
    assert facts is not None and facts.gpus is not None
    assert judged(made, facts) == "done"
    fewer = replace(facts, gpus=facts.gpus[1:])
    assert "gpu GPU-gpu01-0 is absent, not present" in judged(made, fewer)
    others = tuple(replace(gpu, uuid=gpu.uuid.replace("gpu01", "other")) for gpu in facts.gpus)
    told = judged(made, replace(facts, gpus=others))
    assert all(f"gpu GPU-gpu01-{number} is absent" in told for number in range(8))
    assert "gpu GPU-gpu01-0 is unknown" in judged(made, replace(facts, gpus=None))
    for fact in ("generation 1 begun", "generation 1 but older: process 8 sh", "generation 2"):
        assert f"is {fact}, not generation 1" in judged(made, replace(facts, restarts={id: fact}))
    assert "is absent, not generation 1" in judged(made, replace(facts, restarts={}))
    assert "is unknown" in judged(made, replace(facts, restarts=None))


def test_what_a_restart_came_to_is_nothing_that_a_later_look_is_held_against() -> None:
    """Its mark is the host's own: only a restart, never a repair, could write it anew."""
    before = lived_in(hosts(allocation("a")))
    _, made = planned(before, hosts(allocation("a", restart=WANTED)))
    after = applied(made, before)
    assert not [key for key in after.recorded[A].facts if key.startswith(("restart ", "gpu "))]
