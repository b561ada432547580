"""Staging: which versions nodes are to have, and a row for each rule of what is done about one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.plan.drift import Acceptance, Becomes, DriftClass
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Plan, Step
from reconciler.model.state.install import InstallState
from reconciler.model.state.world import Suspension
from reconciler.planner.bundles.install import RULES, is_slow
from reconciler.planner.drift.detect import drifts
from tests.planner.bundle_fleet import (
    HERE,
    LOCK,
    OTHER,
    TORCH,
    A,
    Document,
    having,
    installed,
    showing,
    torch,
    wanting,
)
from tests.planner.fleet import NOW, base_fleet, node, policy, world
from tests.planner.walk import applied, make_plan


def work(made: Plan) -> list[tuple[str, str, str]]:
    """(verb, version, node) of everything in the slow lane."""
    slow = [step for step in made.steps if is_slow(step)]
    return [(s.verb.removeprefix("runtime."), s.item.version, s.node) for s in slow]


def facts_of(made: Plan) -> Mapping[str, str]:
    return next((one.facts for one in made.changes if one.ref == TORCH), {})


# Who wants what.


STAGE_ON_ALL = {"stageOn": {"families": ["h100"]}}


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([torch("1.0")], []),
        ([torch("1.0", **STAGE_ON_ALL)], ["1.0@gpu01", "1.0@gpu02"]),
        ([torch("1.0", stageOn={"nodes": ["gpu02"]})], ["1.0@gpu02"]),
        ([torch("1.0", state="deprecated", **STAGE_ON_ALL)], []),
        ([torch("1.0", state="withdrawn", **STAGE_ON_ALL)], []),
        ([torch("1.0", "2.0"), having("1.0")], ["1.0@gpu01"]),
        ([torch("1.0", "2.0"), having("2.0", "1.0")], ["1.0@gpu01", "2.0@gpu01"]),
        ([torch("1.0", state="deprecated"), having("1.0")], ["1.0@gpu01"]),
        ([torch("1.0", compatible={"families": ["a100"]}, **STAGE_ON_ALL)], []),
        ([torch("1.0", compatible={"gpuVendor": "amd"}, **STAGE_ON_ALL)], []),
    ],
)
def test_who_wants_a_version(documents: list[Document], expected: list[str]) -> None:
    """BND-01 BND-10: a bundle by `stageOn`, or whoever is placed and names it."""
    of = wanting([*base_fleet(), *documents])
    found = work(make_plan(of, showing(of)))
    assert sorted(f"{version}@{on}" for _, version, on in found) == expected
    assert {verb for verb, *_ in found} <= {"stage"}


def test_where_it_would_not_run_it_is_not_put() -> None:
    """F-BUN-08: and the plan says so."""
    compatible = {"gpuVendor": "nvidia", "driverMin": "570.200"}
    of = wanting([*base_fleet(), torch("1.0", compatible=compatible, **STAGE_ON_ALL)])
    seen = dict(showing(of).observations)
    facts = seen["gpu02"].facts
    assert facts is not None and facts.gpus is not None
    new = tuple(replace(gpu, driver="580.65") for gpu in facts.gpus)
    seen["gpu02"] = replace(seen["gpu02"], facts=replace(facts, gpus=new))
    made = make_plan(of, world(of, observations=seen))
    assert work(made) == [("stage", "1.0", "gpu02")]
    assert facts_of(made)["leaves"] == "1.0 on gpu01: driver_too_old"


def test_everything_else_is_done_before() -> None:
    """BND-21: in a wave of its own; an allocation is settled before any build begins."""
    of = wanting([*base_fleet(), torch("1.0", **STAGE_ON_ALL), having("1.0")])
    made = make_plan(of, showing(of))
    *rest, last = made.waves
    assert [is_slow(step) for step in last.steps] == [True, True]
    assert not any(is_slow(step) for wave in rest for step in wave.steps)
    of_a = next(one for one in made.changes if one.ref == A)
    assert set(of_a.steps) <= {step.id for wave in rest for step in wave.steps}


def test_what_is_asked_of_a_host() -> None:
    """All of it is decided here, the requirements among it; a folder is given the program too."""
    of = wanting([*base_fleet(), torch("1.0"), having("1.0")])
    (step,) = (one for one in make_plan(of, showing(of)).steps if is_slow(one))
    item = step.item
    assert (item.bundle, item.version, item.python) == ("torch", "1.0", "3.11")
    assert (item.lock, item.current, item.index) == (LOCK.text, "1.0", "")
    assert "/fleet/nodes/gpu01/opt/gpuaas/runtimes/torch/1.0" in item.activate
    assert item.program.startswith("#!")
    assert step.expected == {}


@pytest.mark.parametrize("folder", ["/my fleet", "/a$(id)", "/a'b", "/a\nid\n", "/a`id`;id #"])
def test_no_name_of_a_folder_is_a_command(folder: str) -> None:
    """BND-05: a node that is a folder is below the fleet's own, whatever that is called."""
    of = wanting([*base_fleet(1), torch("1.0"), having("1.0")])
    of = replace(of, settings=replace(of.settings, folder=folder))
    (step,) = (one for one in make_plan(of, showing(of)).steps if is_slow(one))
    place = f"{folder}/nodes/gpu01/opt/gpuaas/runtimes/torch/1.0"
    words = shlex.split(step.item.activate, comments=True)
    assert {f"PATH={place}/bin${{_gpuaas_path:+:$_gpuaas_path}}", f"VIRTUAL_ENV={place}"} <= set(
        words
    )
    assert "id" not in words


@pytest.mark.parametrize("of_gpu01", ["unavailable", "lost"])
def test_a_node_that_is_out_of_reach_is_not_asked(of_gpu01: str) -> None:
    documents = [d for d in base_fleet() if d["metadata"]["name"] != "gpu01"]
    documents += [node("gpu01", admin={"state": of_gpu01, "reason": "x", "attestedBy": "olga"})]
    of = wanting([*documents, torch("1.0", **STAGE_ON_ALL)])
    assert work(make_plan(of, showing(of))) == [("stage", "1.0", "gpu02")]


def test_of_a_node_that_does_not_tell_nobody_knows_what_it_lacks() -> None:
    """Unknown is not absent."""
    of = wanting([*base_fleet(), torch("1.0", **STAGE_ON_ALL)])
    assert work(make_plan(of, world(of))) == []
    silent = {
        n: replace(one, problem="host_unreachable") for n, one in showing(of).observations.items()
    }
    assert work(make_plan(of, world(of, observations=silent))) == []


@pytest.mark.parametrize("phase", [Phase.QUARANTINED, Phase.RELEASING])
def test_what_is_being_taken_down_gets_no_other_runtime(phase: Phase) -> None:
    """F-PLC-07: its state is the reason, and no host is asked to build anything for it."""
    times = {"expiresAt": "2026-11-01T00:00:00Z"}
    before = wanting([*base_fleet(1), torch("1.0", "2.0"), having("1.0")])
    base = applied(make_plan(before, showing(before)), showing(before))
    leaves = replace(
        base.recorded[A],
        phase=phase,
        basis=str(phase),
        undo_until="2026-12-01T13:00:00Z",
        expires_at="2026-11-01T00:00:00Z",
    )
    of = wanting([*base_fleet(1), torch("1.0", "2.0"), having("2.0", **times)])
    state = replace(showing(of), recorded={**base.recorded, A: leaves}, claims=base.claims)
    made = make_plan(of, state)
    assert work(made) == []
    assert not any(step.verb == "runtime.write_env_file" for step in made.steps)
    change = next(one for one in made.changes if one.ref == A)
    if phase is Phase.QUARANTINED:
        assert change.problem is not None and change.problem.code == "allocation_leaving"
        assert "quarantined" in change.problem.message
    else:
        assert change.action is Action.RELEASE and "joins" in change.facts


# What is done about one: a row for each rule.


ROWS: list[tuple[str, str, InstallState | None, str, str]] = [
    ("missing", "", None, "auto", "stage"),
    ("missing", "failed runtime_interrupted: it ended during download", None, "auto", "stage"),
    ("missing", "failed runtime_hash_wrong: x", InstallState.FAILED, "auto", "stage"),
    ("missing", "", InstallState.STAGED, "auto", "stage"),
    ("left_alone", "", InstallState.STAGED, "never", ""),
    ("under_way", "staging download", InstallState.STAGING, "auto", "stage"),
    ("under_way", "staging seal", None, "never", "stage"),
    ("changed", "changed 1: bin/python", InstallState.STAGED, "auto", "repair"),
    ("changed", "changed 1: bin/python", None, "auto", "repair"),
    ("changed", f"staged {OTHER}", InstallState.STAGED, "auto", "repair"),
    ("left_alone", "changed 1: bin/python", InstallState.STAGED, "never", ""),
    ("left_alone", f"staged {OTHER}", InstallState.STAGED, "never", ""),
    ("unrecorded", HERE, None, "auto", "stage"),
    ("unrecorded", HERE, InstallState.STAGING, "auto", "stage"),
    ("not_default", HERE, InstallState.STAGED, "auto", "stage"),
    ("", HERE, InstallState.STAGED, "auto", ""),
]


@pytest.mark.parametrize(("rule", "fact", "state", "repair", "expected"), ROWS)
def test_each_rule(
    rule: str, fact: str, state: InstallState | None, repair: str, expected: str
) -> None:
    """BND-16 BND-28 F-BUN-01 F-ANS-13: by what the host shows, never by what a job has said."""
    others = [d for d in base_fleet(1) if d["kind"] != "Policy"]
    of = wanting([*others, policy(repair={"platform": repair}), torch("1.0"), having("1.0")])
    shown = {"runtime torch/1.0": fact} if fact else {}
    shown |= {} if rule == "not_default" else {"current torch": "1.0"}
    known = installed("1.0", state=state) if state else ()
    base = applied(make_plan(of, showing(of)), showing(of))
    state_ = replace(showing(of, shown), recorded=base.recorded, claims=base.claims, installs=known)
    made = make_plan(of, state_)
    assert work(made) == ([(expected, "1.0", "gpu01")] if expected else [])
    if expected:
        assert facts_of(made) == {RULES[rule].word: "1.0 on gpu01"}
        action = next(one.action for one in made.changes if one.ref == TORCH)
        assert action is (Action.REPAIR if expected == "repair" else Action.STAGE)


def test_every_rule_has_a_row() -> None:
    assert {rule for rule, *_ in ROWS} == {"", *RULES} - {"unreadable"}


def test_without_its_requirements_nothing_is_built() -> None:
    of = replace(wanting([*base_fleet(), torch("1.0"), having("1.0")]), locks={})
    assert work(make_plan(of, showing(of))) == []


def test_the_newest_that_is_active_is_the_default_of_a_host() -> None:
    of = wanting([*base_fleet(1), torch("2.9", "2.10"), having("2.9", "2.10")])
    made = make_plan(of, showing(of))
    assert [(s.item.version, s.item.current) for s in made.steps if is_slow(s)] == [
        ("2.9", ""),
        ("2.10", "2.10"),
    ]


# Drift.


def seen_by_drift(shown: Mapping[str, str], **changes: Any) -> dict[str, tuple[Becomes, str]]:
    others = [d for d in base_fleet(1) if d["kind"] != "Policy"]
    rules = policy(repair={"platform": changes.pop("repair", "auto")})
    of = wanting([*others, rules, torch("1.0", "2.0"), having("1.0")])
    base = applied(make_plan(of, showing(of)), showing(of))
    state = replace(
        showing(of, shown),
        recorded=base.recorded,
        claims=base.claims,
        installs=installed("1.0", "2.0"),
        **changes,
    )
    found = [one for one in drifts(of, state, NOW) if one.ref == TORCH]
    assert {one.kind for one in found} <= {DriftClass.PLATFORM}
    return {one.key: (one.becomes, one.text) for one in found}


def test_what_was_put_there_and_shows_otherwise_is_drift() -> None:
    """BND-16 BND-28: of the platform, and put right where anybody wants it; else it is told."""
    shown = {"runtime torch/1.0": "changed 1: bin/x", "runtime torch/2.0": f"staged {OTHER}"}
    found = seen_by_drift(shown)
    assert found["runtime torch/1.0"] == (
        Becomes.REPAIRED,
        f"runtime torch/1.0 on gpu01 is changed 1: bin/x, not {HERE}",
    )
    assert found["runtime torch/2.0"][0] is Becomes.REPORTED
    assert seen_by_drift(shown, repair="never")["runtime torch/1.0"][0] is Becomes.REPORTED


def test_what_is_at_work_or_as_it_was_is_none() -> None:
    shown = {"runtime torch/1.0": "staging install", "runtime torch/2.0": HERE}
    assert seen_by_drift(shown) == {}


def test_somebody_may_accept_it() -> None:
    word = Acceptance(
        ref=TORCH,
        key="runtime torch/1.0",
        owner="olga",
        reason="debugging",
        until="2026-12-02T00:00:00Z",
        shown="changed 1: bin/x",
    )
    shown = {"runtime torch/1.0": "changed 1: bin/x", "runtime torch/2.0": HERE}
    found = seen_by_drift(shown, accepted_drift=(word,))
    assert found["runtime torch/1.0"][0] is Becomes.ACCEPTED


# What goes.


@pytest.mark.parametrize(
    ("shown", "keep", "expected"),
    [
        ({"1.0": HERE, "2.0": HERE, "3.0": HERE}, 3, []),
        ({"1.0": HERE, "2.0": HERE, "3.0": HERE}, 1, ["1.0", "2.0"]),
        ({"2.9": HERE, "2.10": HERE, "2.11": HERE}, 2, ["2.9"]),
        ({"1.0": "changed 1: x", "2.0": HERE, "3.0": HERE}, 2, ["1.0"]),
        ({"1.0": "failed runtime_hash_wrong: x", "2.0": HERE, "3.0": HERE}, 3, ["1.0"]),
        ({"1.0": "", "2.0": HERE, "3.0": HERE}, 3, ["1.0"]),
        ({"1.0": "staging download", "2.0": HERE, "3.0": HERE}, 1, ["2.0"]),
    ],
)
def test_the_newest_stay_and_what_came_to_nothing_goes(
    shown: dict[str, str], keep: int, expected: list[str]
) -> None:
    """F-BUN-04: of what the platform has put there, by versions as people count them."""
    assert gone([], shown, keep=keep) == expected


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (Phase.ACTIVE, ["2.0"]),
        (Phase.QUARANTINED, ["2.0"]),
        (Phase.RELEASING, ["2.0"]),
    ],
)
def test_what_any_descriptor_names_stays(phase: Phase, expected: list[str]) -> None:
    """F-BUN-04: whatever becomes of its allocation; one may be taken back."""
    shown = {"1.0": HERE, "2.0": HERE, "3.0": HERE}
    assert gone([having("1.0")], shown, keep=1, phase=phase) == expected


def test_what_goes_makes_room_first() -> None:
    """F-BUN-02: on a disk that is full nothing else could."""
    of = wanting([*base_fleet(1), torch("9.0"), having("9.0")])
    shown = {"runtime torch/1.0": "failed runtime_without_room: x"}
    made = make_plan(of, showing(of, shown, installs=installed("1.0", state=InstallState.FAILED)))
    assert work(made) == [("discard", "1.0", "gpu01"), ("stage", "9.0", "gpu01")]


def test_the_default_of_a_host_stays() -> None:
    assert gone([], {"1.0": HERE, "2.0": HERE, "3.0": HERE}, keep=1, current="1.0") == ["2.0"]


def test_what_nobody_has_put_there_is_nobodys_to_remove() -> None:
    of = wanting([*base_fleet(1), torch("1.0", "9.0")])
    shown = {"runtime torch/8.0": HERE, "runtime torch/7.0": HERE, "runtime torch/6.0": HERE}
    assert work(make_plan(of, showing(of, shown))) == []


def test_of_a_bundle_that_git_no_longer_names_nothing_is_kept_for_later() -> None:
    of = wanting(base_fleet(1))
    shown = {"runtime torch/1.0": HERE, "runtime torch/2.0": HERE, "current torch": "2.0"}
    made = make_plan(of, showing(of, shown, installs=installed("1.0", "2.0")))
    assert work(made) == [("discard", "1.0", "gpu01"), ("discard", "2.0", "gpu01")]
    one, default = made.steps
    assert (one.item.with_default, default.item.with_default) == (False, True)
    assert default.expected == {"runtime torch/2.0": None, "current torch": None}
    assert facts_of(made) == {"removes": "1.0 on gpu01; 2.0 on gpu01"}


def test_of_a_bundle_whose_file_is_broken_nothing_goes() -> None:
    """Unknown is not absent: it counts as it was recorded."""
    before = wanting([*base_fleet(1), torch("1.0")])
    base = applied(make_plan(before, showing(before)), showing(before))
    of = replace(wanting(base_fleet(1)), frozen=frozenset({TORCH}))
    shown = {"runtime torch/1.0": HERE}
    state = replace(showing(of, shown), recorded=base.recorded, installs=installed("1.0"))
    assert work(make_plan(of, state)) == []


def test_of_a_bundle_whose_file_is_broken_all_else_goes_on() -> None:
    """It counts as it was recorded: what was wanted of it is built, and put right again."""
    documents = [*base_fleet(1), torch("1.0"), having("1.0")]
    before = wanting(documents)
    base = applied(make_plan(before, showing(before)), showing(before))
    resources = {ref: one for ref, one in before.resources.items() if ref != TORCH}
    of = replace(before, resources=resources, frozen=frozenset({TORCH}))
    for shown, installs, expected in (
        ({}, (), ("stage", "1.0", "gpu01")),
        ({"runtime torch/1.0": "changed 1: x"}, installed("1.0"), ("repair", "1.0", "gpu01")),
    ):
        state = showing(before, shown)
        state = replace(base, observations=state.observations, installs=installs)
        assert work(make_plan(of, state)) == [expected]


def test_where_the_loop_leaves_one_host_alone_the_rest_is_told_as_it_is() -> None:
    """What is left of the work says what it is called."""
    allow = policy(automation={"allow": "destroys"})
    others = [d for d in base_fleet(2) if d["kind"] != "Policy"]
    of = wanting([*others, allow, torch("1.0", "2.0", **STAGE_ON_ALL)])
    base = applied(make_plan(of, showing(of)), showing(of))
    shown = {"runtime torch/1.0": "changed 1: x", "runtime torch/2.0": HERE, "current torch": "2.0"}
    seen = showing(of, shown).observations
    left_alone = Suspension(scope="loop/node/gpu02", actor="olga", reason="x", since="")
    state = replace(
        base,
        observations=seen,
        installs=installed("1.0", "2.0"),
        suspensions=(left_alone,),
    )
    made = make_plan(of, state, unattended=True)
    assert [(one.ref, one.action) for one in made.changes] == [(TORCH, Action.REPAIR)]
    assert {step.node for step in made.steps} == {"gpu01"}


def gone(
    documents: list[Document],
    shown: Mapping[str, str],
    *,
    keep: int = 3,
    current: str = "",
    phase: Phase = Phase.ACTIVE,
) -> list[str]:
    """Versions that a plan removes from a host where we have put all these."""
    others = [d for d in base_fleet(1) if d["kind"] != "Policy"]
    rules = policy(bundles={"keepVersions": keep})
    before = wanting([*others, rules, torch(*shown), *documents])
    base = applied(make_plan(before, showing(before)), showing(before))
    facts = {f"runtime torch/{version}": fact for version, fact in shown.items() if fact}
    facts |= {"current torch": current} if current else {}
    recorded = {
        ref: replace(one, phase=phase, undo_until="2026-12-01T13:00:00Z") if one.id else one
        for ref, one in base.recorded.items()
    }
    state = replace(
        showing(before, facts),
        recorded=recorded,
        claims=base.claims,
        installs=installed(*shown),
    )
    made = make_plan(before, state)
    steps: list[Step] = [step for step in made.steps if step.verb == "runtime.discard"]
    for step in steps:
        assert step.expected == {f"runtime torch/{step.item.version}": None}
    return [step.item.version for step in steps]
