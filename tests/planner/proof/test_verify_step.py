"""Judging: a receipt is no proof, and what was not seen proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.model.host.evidence import GpuFact, NodeFacts, Observation
from reconciler.model.plan.plan import Order, Step
from reconciler.model.plan.work import Receipt
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.planner.proof.verify_step import judge
from tests.harness.items import make_item

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
        item=make_item("allocation.release", id=ID),
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


def test_what_a_host_took_away_of_others_is_kept_to_be_read() -> None:
    """F-BUN-07: a repair names what was not ours, also where all went well."""
    told = receipt(evidence={"removed": "lib/theirs.py", HOME: "dir 0700"}, log="said")
    assert judge(MADE, told, seen(THERE)).log == "said\nremoved: lib/theirs.py"
    assert judge(MADE, receipt(), seen(THERE)).log == ""
