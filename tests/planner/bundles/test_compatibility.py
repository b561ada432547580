"""Compatibility: a row for each rule, and what becomes of allocations that a node cannot run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.host.capacity import RuntimeNeed
from reconciler.model.host.evidence import GpuFact
from reconciler.model.ref import Ref
from reconciler.model.state.world import World
from reconciler.planner.bundles.compatibility import RULES, Machine, misfit
from reconciler.planner.bundles.versions import figures, in_order, newest
from reconciler.planner.placement.explanation import explain
from tests.planner.fleet import (
    NOW,
    allocation,
    base_fleet,
    desired,
    document,
    family,
    node,
    policy,
    world,
)
from tests.planner.walk import applied, make_plan

A = Ref("allocation", "vision", "a")
HERE = Machine(name="gpu01", family="h100", vendor="nvidia", cuda_max="12.4", driver="550.54.15")


def need(version: str = "2.0", **changes: Any) -> RuntimeNeed:
    return RuntimeNeed(bundle="torch", version=version, **{"vendor": "nvidia", **changes})


ROWS: list[tuple[dict[str, Any], dict[str, str], str]] = [
    ({}, {}, ""),
    ({"vendor": "amd"}, {}, "vendor_mismatch"),
    ({"vendor": "none"}, {"vendor": "amd", "driver": ""}, ""),
    ({"vendor": "none", "driver_min": "999", "cuda": "99"}, {}, ""),
    ({"families": ("h100",)}, {}, ""),
    ({"families": ("a100", "h200")}, {}, "family_not_supported"),
    ({"vendor": "none", "families": ("a100",)}, {}, "family_not_supported"),
    ({"driver_min": "550.54"}, {}, ""),
    ({"driver_min": "550.54.15"}, {}, ""),
    ({"driver_min": "550.9"}, {}, ""),
    ({"driver_min": "550.100"}, {}, "driver_too_old"),
    ({"driver_min": "560"}, {}, "driver_too_old"),
    ({"driver_min": "550.54"}, {"driver": "550.54-standin"}, ""),
    ({"driver_min": "550.54"}, {"driver": ""}, "compatibility_unknown"),
    ({"driver_min": "550.54", "may_be_unknown": True}, {"driver": ""}, ""),
    ({"cuda": "12.4"}, {}, ""),
    ({"cuda": "12.10"}, {}, "cuda_too_new"),
    ({"cuda": "13.0"}, {}, "cuda_too_new"),
    ({"cuda": "12.4"}, {"cuda_max": ""}, "compatibility_unknown"),
    ({"cuda": "12.4", "driver_min": "550"}, {"cuda_max": ""}, ""),
    ({}, {"vendor": ""}, "compatibility_unknown"),
    ({"vendor": ""}, {}, "compatibility_unknown"),
    ({"vendor": "", "may_be_unknown": True}, {}, ""),
    ({"vendor": "amd", "may_be_unknown": True}, {}, "vendor_mismatch"),
    ({"driver_min": "560", "may_be_unknown": True}, {}, "driver_too_old"),
]


@pytest.mark.parametrize(("changes", "of_machine", "code"), ROWS)
def test_each_rule(changes: dict[str, Any], of_machine: dict[str, str], code: str) -> None:
    """BND-24 F-BUN-08: by vendor, family, driver and CUDA; what nobody knows is refused as well."""
    found, why = misfit(replace(HERE, **of_machine), need(**changes)) or ("", "")
    assert found == code
    assert bool(why) is bool(code)


def test_every_rule_has_a_row() -> None:
    assert {code for *_, code in ROWS} == {"", *RULES}


@pytest.mark.parametrize(
    ("others", "nearest"),
    [
        ({}, "no other version of it is known to fit"),
        ({"1.9": "550", "1.10": "550", "3.0": "550"}, "nearest that fits: 1.10"),
        ({"1.9": "550", "1.10": "570"}, "nearest that fits: 1.9"),
        ({"3.0": "550", "2.1": "550"}, "nearest that fits: 2.1"),
        ({"1.0": "580"}, "no other version of it is known to fit"),
    ],
)
def test_the_refusal_names_both_and_the_nearest(others: dict[str, str], nearest: str) -> None:
    """F-BUN-08: the newest before it, else the oldest after it."""
    known = tuple(need(version, driver_min=least) for version, least in others.items())
    objection = misfit(HERE, need(driver_min="570.26", others=known))
    assert objection is not None
    assert objection.why == f"torch 2.0 needs driver 570.26, and gpu01 has 550.54.15; {nearest}"


def test_versions_count_as_people_count() -> None:
    versions = ["2.10", "2.9", "2.9-rc1", "10.0", "2.9.1"]
    assert in_order(versions) == ["2.9", "2.9-rc1", "2.9.1", "2.10", "10.0"]
    assert (newest(versions), newest([])) == ("10.0", "")
    assert figures("550.54.0") == figures("550.54-x") == (550, 54)
    assert (figures("no"), figures("")) == ((), ())


# What becomes of allocations.


def torch(**least: str) -> dict[str, Any]:
    """A bundle with versions that need these drivers; `w1` is version 1.0, withdrawn."""
    return bundle(
        {
            word.removeprefix("w").removeprefix("v") + ".0": {
                "compatible": {"gpuVendor": "nvidia", "driverMin": driver},
                **({"state": "withdrawn"} if word[0] == "w" else {}),
            }
            for word, driver in least.items()
        }
    )


def bundle(versions: dict[str, Any]) -> dict[str, Any]:
    listed = [{"version": version, **more} for version, more in versions.items()]
    spec = {"displayName": "Torch", "supportLevel": "supported", "versions": listed}
    return document("Bundle", "torch", spec)


def having(version: str, **changes: Any) -> dict[str, Any]:
    return allocation("a", runtimes=[{"bundle": "torch", "version": version}], **changes)


def with_driver(of: World, **drivers: str) -> World:
    """Nodes whose cards say another driver."""
    seen = dict(of.observations)
    for name, driver in drivers.items():
        facts = seen[name].facts
        assert facts is not None and facts.gpus is not None
        gpus: tuple[GpuFact, ...] = tuple(replace(gpu, driver=driver) for gpu in facts.gpus)
        seen[name] = replace(seen[name], facts=replace(facts, gpus=gpus))
    return replace(of, observations=seen)


def problem(documents: list[dict[str, Any]], state: World) -> tuple[str, str]:
    made = make_plan(desired(documents), state)
    (change,) = [one for one in made.changes if one.ref == A]
    assert change.problem is None or not change.steps
    return (change.problem.code, change.problem.message) if change.problem else ("", "")


def mixed(nodes: int = 2) -> list[dict[str, Any]]:
    """A family whose drivers are being upgraded."""
    base = {"os": ["debian-12"], "driverBranches": ["550", "570"], "cudaMax": "12.8"}
    return [d for d in base_fleet(nodes) if d["kind"] != "NodeFamily"] + [family(base=base)]


def test_it_is_placed_where_it_runs() -> None:
    """F-BUN-08: a node with an older driver is passed over, and says why."""
    documents = [*mixed(), torch(v1="570"), having("1.0")]
    of = desired(documents)
    state = with_driver(world(of), gpu01="550.54")
    made = make_plan(of, state)
    (change,) = [one for one in made.changes if one.ref == A]
    assert change.placement is not None and change.placement.node == "gpu02"
    told = {one.node: (one.rule, one.detail) for one in explain(of, state, NOW, A)}
    assert told["gpu01"][0] == "driver_too_old"
    assert "needs driver 570, and gpu01 has 550.54" in told["gpu01"][1]


def test_where_no_node_can_run_it_nobody_waits() -> None:
    """F-BUN-08: room would change nothing, so it is no request that waits."""
    documents = [*mixed(), torch(v1="550", v2="580"), having("2.0")]
    of = desired(documents)
    code, message = problem(documents, world(of))
    assert code == "driver_too_old"
    assert message == (
        "torch 2.0 needs driver 580, and gpu01 has 570.133-standin; nearest that fits: 1.0"
        " (and 1 more nodes)"
    )
    assert make_plan(of, world(of)).waiting == ()


def test_a_node_that_may_come_back_is_waited_for() -> None:
    documents = [*mixed(), torch(v1="570"), having("1.0")]
    documents += [node("gpu03", admin={"state": "draining", "reason": "disk"})]
    of = desired(documents)
    state = with_driver(world(of), gpu01="550.54", gpu02="550.54")
    code, message = problem(documents, state)
    assert code == "sku_unavailable"
    assert message == "3 nodes: 2 with a driver too old for its runtimes · 1 draining"


def test_of_a_node_that_was_never_seen_it_is_asked_first() -> None:
    documents = [*mixed(), torch(v1="570"), having("1.0")]
    state = replace(world(desired(documents)), observations={})
    assert problem(documents, state)[0] == "sku_unavailable"


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("1.0", "2.0", "driver_too_old"),
        ("2.0", "1.0", ""),
        ("1.0", "3.0", "driver_too_old"),
        ("1.0", "9.0", "bundle_version_unknown"),
        ("1.0", "4.0", "bundle_withdrawn"),
        ("4.0", "4.0", ""),
    ],
)
def test_a_switch_and_a_rollback_are_asked_alike(before: str, after: str, code: str) -> None:
    """F-BUN-08: of the target alone; what it has already stays, though the node has changed."""
    base = [*mixed(1), torch(v1="550", v2="570", v3="570.1", w4="550")]
    then = [*mixed(1), torch(v1="550", v2="570", v4="550"), having(before)]
    recorded = applied(make_plan(desired(then)), world(desired(then)))
    state = with_driver(recorded, gpu01="550.54")
    found, message = problem([*base, having(after, labels={"x": "y"})], state)
    assert found == code, message
    if code == "driver_too_old":
        assert f"torch {after} needs driver" in message and "gpu01 has 550.54" in message
        assert "nearest that fits: 1.0" in message


def test_what_nobody_knows_may_pass_by_the_policy() -> None:
    documents = [*base_fleet(), bundle({"1.0": {}}), having("1.0")]
    state = world(desired(documents))
    assert problem(documents, state)[0] == "compatibility_unknown"
    allowed = policy(bundles={"keepVersions": 3, "allowUnknownCompatibility": True})
    documents = [d for d in documents if d["kind"] != "Policy"] + [allowed]
    assert problem(documents, state)[0] == ""


def test_a_replace_goes_where_all_that_it_has_runs() -> None:
    """It comes to a new place with all of its runtimes."""
    base = [*mixed(), torch(v1="570")]
    of = desired([*base, having("1.0")])
    state = applied(make_plan(of), world(of))
    wanted = [*base, having("1.0", sku="slice-2")]
    assert problem(wanted, with_driver(state, gpu01="550.54")) == ("", "")
    code, _ = problem(wanted, with_driver(state, gpu01="550.54", gpu02="550.54"))
    assert code == "driver_too_old"


def test_the_observation_counts_and_not_the_branches_of_the_family() -> None:
    """F-BUN-08: the probe says which driver there is."""
    documents = [*mixed(1), torch(v1="570"), having("1.0")]
    state = world(desired(documents))
    assert problem(documents, with_driver(state, gpu01="550.54.14"))[0] == "driver_too_old"
    assert problem(documents, with_driver(state, gpu01="570.26"))[0] == ""


def test_what_cannot_be_read_is_given_to_nobody() -> None:
    """Its document is frozen and was never recorded, so nobody knows what it is."""
    documents = [*mixed(1), having("1.0")]
    assert problem(documents, world(desired(documents)))[0] == "bundle_version_unknown"
