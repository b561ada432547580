"""Judging: a receipt is no proof, and what was not seen proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.capacity import Claim, ClaimState
from reconciler.model.evidence import CheckResult, GpuFact, NodeFacts, Observation
from reconciler.model.plan import Order, Step
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.work import Receipt
from reconciler.planner.judging import judge, prove
from tests.planner.fleet import claim

REF = Ref("allocation", "vision", "a")
AT = "2026-12-01T12:00:00Z"
DEVICES = {"s0": "GPU-0", "s1": "GPU-1"}
HOME, KEYS = "/home/a-abcd", "/etc/gpuaas/ssh/a-abcd"
ID = "abcdefghij"


def step(expected: Mapping[str, str | None], verb: str = "allocation.release") -> Step:
    return Step(
        id="1",
        verb=verb,
        node="gpu01",
        ref=REF,
        order=Order.RETIRE,
        item={"id": ID},
        expected=expected,
    )


def receipt(**changes: Any) -> Receipt:
    return Receipt(**{"step": "1", "node": "gpu01", "verb": "v", "ok": True, **changes})


def seen(paths: Mapping[str, str] | None, **changes: Any) -> Observation:
    gpus = tuple(
        GpuFact(uuid=uuid, pci_address="", model="", processes=()) for uuid in DEVICES.values()
    )
    facts = {"source": "host", "boot_id": "b", "gpus": gpus, "paths": paths, "descriptors": {}}
    return Observation(node="gpu01", at=AT, facts=NodeFacts(**{**facts, **changes}))


MADE, GONE = step({HOME: "dir 0700"}), step({HOME: None, KEYS: None})
THERE = {HOME: "dir 0700"}
SILENT = Observation(node="gpu01", at=AT, problem="host_timeout", message="no answer")
BROKEN = Problem(code="path_not_removed", message="busy")


def test_done_is_what_the_host_shows() -> None:
    outcome = judge(MADE, receipt(changed=True), seen(THERE))
    assert (outcome.ok, outcome.changed, outcome.unknown) == (True, True, False)


@pytest.mark.parametrize(
    ("told", "observed", "code", "unknown"),
    [
        (None, seen(THERE), "receipt_missing", True),
        (receipt(), None, "observation_failed", True),
        (receipt(), SILENT, "host_timeout", True),
        (receipt(), seen(None), "observation_failed", True),
        (receipt(), seen({}), "evidence_mismatch", False),
        (receipt(), seen({HOME: "dir 0755"}), "evidence_mismatch", False),
        (receipt(ok=False), seen(THERE), "verb_failed", False),
        (receipt(ok=False, problem=BROKEN), seen(THERE), "path_not_removed", False),
        (receipt(ok=False, unknown=True), seen(THERE), "verb_failed", True),
    ],
)
def test_anything_less_is_not_done(
    told: Receipt | None, observed: Observation | None, code: str, unknown: bool
) -> None:
    """A module that lies ends in failure; silence ends in unknown, never in ok."""
    outcome = judge(MADE, told, observed)
    assert outcome.problem is not None
    assert (outcome.ok, outcome.problem.code, outcome.unknown) == (False, code, unknown)


def released(slot: str | None = "s0", state: ClaimState = ClaimState.RELEASING) -> Claim:
    return claim("a", "gpu01", slot, allocation_id=ID, state=state)


def result(of: Claim, observed: Observation | None, **devices: str) -> tuple[bool, set[str]]:
    (proof,) = prove([of], [GONE], observed, AT, devices or DEVICES)
    return proof.passed, {c.name for c in proof.checks if c.result is not CheckResult.PASS}


def test_a_clean_slot_is_proved() -> None:
    """F-PLC-04: every path gone, no descriptor, nobody computing."""
    assert result(released(), seen({})) == (True, set())
    assert result(released(None), seen({})) == (True, set())


@pytest.mark.parametrize(
    ("observed", "failing"),
    [
        (None, {"host gpu01"}),
        (SILENT, {"host gpu01"}),
        (seen(None), {HOME, KEYS}),
        (seen({HOME: "dir 0700"}), {HOME}),
        (seen({f"{KEYS}/left": "file 0644 x"}), {KEYS}),
        (seen({}, descriptors=None), {"descriptor"}),
        (seen({}, descriptors={ID: "state"}), {"descriptor"}),
        (seen({}, gpus=None), {"processes on s0"}),
        (seen({}, gpus=()), {"processes on s0"}),
    ],
)
def test_what_is_left_or_not_seen_is_not_proved(
    observed: Observation | None, failing: set[str]
) -> None:
    """F-PLC-04 F-PLC-05: unknown is not clean."""
    assert result(released(), observed) == (False, failing)


LOGIN = "a-abcd"
LISTED = {"account *": "listed", "slice *": "listed"}
ACCOUNT = replace(
    step({HOME: None, f"account {LOGIN}": None, f"slice {LOGIN}": None}),
    item={"id": ID, "uid": 20000},
)


def account_left(
    platform: Mapping[str, str] | None, left: Mapping[str, tuple[str, ...]] | None
) -> dict[str, tuple[CheckResult, str]]:
    observed = seen({}, platform=platform, leftovers=left)
    (proof,) = prove([released()], [ACCOUNT], observed, AT, DEVICES)
    return {c.name: (c.result, c.value) for c in proof.checks if c.result is not CheckResult.PASS}


def test_an_account_is_proved_gone_with_all_that_its_uid_had() -> None:
    assert account_left(LISTED, {"20000": ()}) == {}


@pytest.mark.parametrize(
    ("platform", "left", "failing"),
    [
        (None, {"20000": ()}, {f"account {LOGIN}", f"slice {LOGIN}"}),
        ({"account *": "listed"}, {"20000": ()}, {f"slice {LOGIN}"}),
        ({**LISTED, f"account {LOGIN}": "uid=20000"}, {"20000": ()}, {f"account {LOGIN}"}),
        ({**LISTED, f"slice {LOGIN}": "unknown: busy"}, {"20000": ()}, {f"slice {LOGIN}"}),
        (LISTED, None, {"left of uid 20000"}),
        (LISTED, {}, {"left of uid 20000"}),
        (LISTED, {"20001": ()}, {"left of uid 20000"}),
        (LISTED, {"20000": ("process 812 sleep",)}, {"left of uid 20000"}),
    ],
)
def test_an_account_of_which_anything_is_left_or_not_seen_is_not_proved_gone(
    platform: Mapping[str, str] | None,
    left: Mapping[str, tuple[str, ...]] | None,
    failing: set[str],
) -> None:
    """F-PLC-04 F-PLC-05: a word that was not listed, or a uid not looked through, is unknown."""
    assert set(account_left(platform, left)) == failing


def test_what_is_left_of_a_uid_is_named() -> None:
    left = {"20000": ("process 812 sleep", "file /opt/x")}
    assert account_left(LISTED, left) == {
        "left of uid 20000": (CheckResult.FAIL, "process 812 sleep, file /opt/x")
    }


def test_a_process_on_the_card_keeps_its_slot_alone() -> None:
    """F-PLC-04: a compute process that is still listed, by its number."""
    facts = seen({}).facts
    busy = replace(facts.gpus[0], processes=(8812,))
    observed = seen({}, gpus=(busy, facts.gpus[1]))
    assert result(released("s0"), observed) == (False, {"processes on s0"})
    assert result(released("s1"), observed) == (True, set())
    assert result(released(None), observed) == (False, {"processes on s0"})


def test_without_devices_a_whole_node_is_not_proved() -> None:
    (proof,) = prove([released(None)], [GONE], seen({}), AT, {})
    assert not proof.passed


def test_only_what_these_steps_give_up_is_judged() -> None:
    """Neither a neighbour, nor one that is held, nor the same id elsewhere."""
    others = [
        claim("b", "gpu01", "s1", state=ClaimState.RELEASING),
        released(state=ClaimState.HELD),
        replace(released(), node="gpu02"),
    ]
    assert prove(others, [GONE], seen({}), AT, DEVICES) == ()
    assert prove([released()], [MADE], seen({}), AT, DEVICES) == ()
