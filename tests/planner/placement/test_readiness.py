"""Readiness is the machine's own evidence: it falls with it, and comes back with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.host.evidence import Check, CheckResult, Observation, ProbeProblem
from reconciler.model.ref import Ref
from reconciler.planner.placement.filters import judge
from reconciler.planner.placement.inventory import Offer, read_held, read_offers
from reconciler.planner.placement.readiness import readiness
from tests.planner.fleet import NOW, base_fleet, desired, need, node, observation, world

PASS, FAIL, UNKNOWN = CheckResult.PASS, CheckResult.FAIL, CheckResult.UNKNOWN
DESIRED = desired([*base_fleet(0), node("gpu01", 2)])
NODE = DESIRED.resources[Ref("node", "", "gpu01")]


def told(**facts: Any) -> Observation:
    return observation(NODE, **{"os": "debian-12", "machine_id": "a" * 32, **facts})


def offer_of(seen: Observation | None) -> Offer:
    (offer,) = read_offers(
        DESIRED, world(DESIRED, observations={"gpu01": seen} if seen else {}), NOW, {}
    )
    return offer


def checks(seen: Observation | None) -> Mapping[str, Check]:
    known = DESIRED.get("node_family", "h100")
    assert known is not None
    return {check.name: check for check in readiness(offer_of(seen), known.spec)}


def rule(seen: Observation | None) -> str:
    """The rule that keeps allocations off the node; empty if it is ready."""
    offer = offer_of(seen)
    return judge(offer, read_held([offer], ())["gpu01"], need("a")).rule


def with_driver(version: str | None) -> Mapping[str, Any]:
    sound = told().facts
    assert sound is not None and sound.gpus is not None
    return {
        "gpus": tuple(
            type(gpu)(**{**{n: getattr(gpu, n) for n in gpu.__slots__}, "driver": version})
            for gpu in sound.gpus
        )
    }


def test_every_check_has_a_result_of_its_own() -> None:
    """INV-15: what passed is told as well, one line for each check."""
    found = checks(told())
    assert {name: check.result for name, check in found.items()} == dict.fromkeys(found, PASS)
    assert {"reachable", "evidence", "boot", "os", "driver", "cards", "memory"} <= set(found)


@pytest.mark.parametrize(
    ("version", "result", "refused"),
    [
        ("570.86.15", PASS, ""),
        ("580.105.08", FAIL, "driver_outside_family"),
        ("535.230.02", FAIL, "driver_outside_family"),
        (None, UNKNOWN, "driver_outside_family"),
    ],
)
def test_a_driver_outside_the_family_takes_nobody(
    version: str | None, result: CheckResult, refused: str
) -> None:
    """INV-17: drivers are no part of an allocation; the wrong branch, or none told, is refused."""
    seen = told(**with_driver(version))
    assert (checks(seen)["driver"].result, rule(seen)) == (result, refused)


@pytest.mark.parametrize(
    ("os", "result"), [("debian-12", PASS), ("debian-13", FAIL), ("", UNKNOWN)]
)
def test_an_operating_system_outside_the_family_is_reported(os: str, result: CheckResult) -> None:
    """INV-17: reported, and no more: placement goes by the driver."""
    seen = told(os=os)
    assert checks(seen)["os"].result is result
    assert os in checks(seen)["os"].value
    assert rule(seen) == ""


def test_evidence_of_an_earlier_boot_counts_for_nothing_after_the_next_observe() -> None:
    """INV-15: nothing that passed before a reboot is carried over; it comes back by itself."""
    before = told(boot_id="boot-1")
    lost = told(boot_id="boot-2", gpus=None)
    again = told(boot_id="boot-2")
    assert [rule(seen) for seen in (before, lost, again)] == ["", "readiness_incomplete", ""]
    assert checks(again)["boot"].value == "boot-2"


@pytest.mark.parametrize(
    ("seen", "name", "refused"),
    [
        (None, "reachable", "readiness_missing"),
        (Observation(node="gpu01", at="", problem="host_timeout"), "reachable", "node_unreachable"),
        (told(at=NOW - timedelta(hours=2)), "evidence", "readiness_stale"),
        (told(at=NOW + timedelta(hours=2)), "evidence", "readiness_stale"),
        (told(gpus=None), "cards", "readiness_incomplete"),
        (told(descriptors=None), "allocations", "readiness_incomplete"),
        (told(memory_mib=None), "memory", "memory_exceeded"),
    ],
)
def test_a_check_that_did_not_pass_keeps_allocations_away(
    seen: Observation | None, name: str, refused: str
) -> None:
    """INV-15, F-ANS-03: failed and unknown alike; approval is another matter and stays."""
    assert checks(seen)[name].result in (FAIL, UNKNOWN)
    assert rule(seen) == refused
    assert offer_of(seen).approved


def test_a_failed_probe_is_named_where_it_keeps_allocations_away() -> None:
    """F-ANS-03: nobody takes a probe that failed for a host without cards."""
    problems = (ProbeProblem(probe="gpus", message="nvidia-smi is not there"),)
    offer = offer_of(told(gpus=None, problems=problems))
    verdict = judge(offer, read_held([offer], ())["gpu01"], need("a"))
    assert verdict.detail == "GPUs unknown: probe gpus: nvidia-smi is not there"
