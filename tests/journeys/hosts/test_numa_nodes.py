"""A host that has forgotten on which NUMA node its cards are."""

from __future__ import annotations

import pytest

from tests.harness.yard import Yard
from tests.planner import fleet as paper

pytestmark = pytest.mark.walk

NEW, NEW_REF = paper.allocation("new", node="gpu02"), "allocation/vision/new"


def test_what_was_known_of_it_stays_and_nobody_is_placed_on_a_guess(yard: Yard) -> None:
    """F-PLC-13: a look without the NUMA node after it was known; who is there keeps their place."""
    claims = yard.claims
    files = list(yard.root("gpu02").rglob("numa_node"))
    assert files
    kept = {file: file.read_text() for file in files}
    for file in files:
        file.unlink()
    refreshed = yard.plan("--refresh", "--detailed-exitcode")
    assert (refreshed.code, refreshed.actions) == (4, {})
    numas = {
        one["slot"]: one["numa"]
        for one in yard.gpuaas("slot", "list").document["result"]
        if one["node"] == "gpu02"
    }
    assert set(numas.values()) == {0}, "as it was approved"
    shown = yard.gpuaas("node", "show", "gpu02").document["result"]
    (check,) = [one for one in shown["readiness"] if one["name"] == "NUMA nodes"]
    assert check["result"] == "unknown"
    assert "unknown, 0 when it was approved" in check["value"]

    yard.write(NEW)
    yard.commit()
    assert yard.apply().blocked == {NEW_REF: "sku_unavailable"}
    candidates = yard.gpuaas("explain", NEW_REF).document["result"]["candidates"]
    assert {one["node"]: one["rule"] for one in candidates}["gpu02"] == "numa_mismatch"
    assert yard.claims == claims

    for file, text in kept.items():
        file.write_text(text)
    yard.plan("--refresh")
    assert yard.apply().code == 0
    assert yard.claims[f"{NEW_REF}@gpu02/s1"] == "held"
