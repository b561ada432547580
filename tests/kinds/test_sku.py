"""Sku: one shape, promises that approved slots keep, prices in order."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from reconciler.kinds.approval import name_digests
from reconciler.kinds.node import node as node_kind
from reconciler.kinds.sku import price_in_force
from reconciler.model.codec import encode
from reconciler.model.problem import Severity
from tests.kinds.sample import Fleet

SKU, NODE = "sku/h100-slice-1", "node/gpu01"


def codes(fleet: Fleet) -> list[str]:
    return [problem.code for problem in fleet.problems(SKU)]


def test_a_good_sku_has_no_problem() -> None:
    assert codes(Fleet()) == []


def test_slots_go_with_the_shape() -> None:
    """OBJ-09: slots are counted for a slice, and never for a whole host."""
    fleet = Fleet()
    del fleet[SKU]["slots"]
    assert "field_missing" in codes(fleet)
    fleet[SKU].update(shape="baremetal", slots=8)
    assert "field_forbidden" in codes(fleet)


@pytest.mark.parametrize(
    ("spec", "is_sound"),
    [
        ({"shape": "gpu_slice", "isolation": ["account"]}, False),
        ({"shape": "gpu_slice", "isolation": ["account", "vm"]}, False),
        ({"shape": "gpu_slice", "isolation": ["vm"]}, True),
        ({"shape": "baremetal", "isolation": ["account"]}, True),
    ],
)
def test_root_is_for_whole_hosts_and_machines(spec: dict[str, Any], is_sound: bool) -> None:
    fleet = Fleet()
    fleet[SKU].update(spec, rootAccess=True)
    assert ("sku_unsound" not in codes(fleet)) is is_sound


def test_prices_are_in_order() -> None:
    fleet = Fleet()
    first, second = fleet[SKU]["prices"]
    fleet[SKU]["prices"] = [second, first]
    problem = fleet.only(SKU)
    assert problem.code == "price_unsound"
    assert problem.source and problem.source.path == ("spec", "prices", 1, "from")
    fleet[SKU]["prices"] = [first, first]
    assert codes(fleet) == ["price_unsound"]
    fleet[SKU]["prices"] = [{**first, "from": "2026-02-30T00:00:00Z"}]
    assert codes(fleet) == ["value_pattern"]


def capacity(change: Any) -> list[str]:
    """Only gpu01 serves, and is approved anew after the change."""
    fleet = Fleet()
    fleet.remove("node/gpu02")
    change(fleet[NODE], fleet[SKU])
    spec = node_kind.parse(fleet[NODE], "gpu01")
    for approval in fleet[NODE]["approvals"]:
        approval["digests"] = encode(name_digests(spec, approval["covers"]))
    problems = fleet.problems(SKU)
    assert all(problem.severity is Severity.WARNING for problem in problems)
    return [problem.code for problem in problems]


@pytest.mark.parametrize(
    "change",
    [
        lambda node, sku: None,
        lambda node, sku: sku.update(minCpusPerSlot=26, minMemoryGiBPerSlot=224, rdma=True),
    ],
)
def test_there_is_capacity(change: Any) -> None:
    """INV-11: slot s0 alone keeps every promise."""
    assert capacity(change) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda node, sku: sku.update(minCpusPerSlot=27),
        lambda node, sku: sku.update(minMemoryGiBPerSlot=225),
        lambda node, sku: sku.update(slots=2),
        lambda node, sku: sku.update(families=["other"]),
        lambda node, sku: sku.update(isolation=["vm"]),
        lambda node, sku: node.update(shapes=["baremetal"]),
        lambda node, sku: node.update(approvals=[]),
        lambda node, sku: node["approvals"][0].update(covers=["s0"]),
        lambda node, sku: node["approvals"][0].update(covers=["host", "s1"]),
        lambda node, sku: node["slots"][0].update(disabled={"reason": "x"}),
        lambda node, sku: node.update(slots=node["slots"][1:]),
        lambda node, sku: (sku.update(rdma=True), node["slots"][0]["nic"].update(rdma=False)),
        lambda node, sku: (sku.update(shape="baremetal"), sku.pop("slots")),
    ],
)
def test_a_sku_without_capacity_is_told(change: Any) -> None:
    """INV-08, INV-11, INV-12: a warning, when no approved slots of any one node fit."""
    assert capacity(change) == ["sku_without_capacity"]


def test_a_whole_host_is_all_its_slots() -> None:
    def change(node: dict[str, Any], sku: dict[str, Any]) -> None:
        sku.update(shape="baremetal")
        del sku["slots"], node["slots"][1]["disabled"]

    assert capacity(change) == []


def test_what_this_version_cannot_do_yet() -> None:
    fleet = Fleet()
    assert fleet.unsupported(SKU) == ""
    fleet[SKU].update(isolation=["directory"])
    assert fleet.unsupported(SKU) == ""
    fleet[SKU].update(isolation=["directory", "vm"], rootAccess=True)
    assert fleet.unsupported(SKU) == "isolation vm, rootAccess"
    fleet[SKU].update(isolation=["account"], rootAccess=False, rdma=True)
    assert fleet.unsupported(SKU) == "rdma with isolation account"


def test_an_announced_price_does_not_count_yet() -> None:
    """OBJ-09: the list only grows; what counts is the last price whose time has come."""
    fleet = Fleet()
    times = ("2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z", "2030-01-01T00:00:00Z")
    rates = ("2.10", "1.90", "9.99")
    pairs = zip(times, rates, strict=True)
    fleet[SKU]["prices"] = [{"from": f, "perGpuHour": p, "currency": "EUR"} for f, p in pairs]
    spec = fleet.resource(SKU).spec

    def rate(at: str) -> str:
        found = price_in_force(spec, datetime.fromisoformat(at))
        return found.per_gpu_hour if found else ""

    assert rate("2025-12-31T23:59:59+00:00") == ""
    assert rate("2026-01-01T00:00:00+00:00") == "2.10"
    assert rate("2026-11-27T00:00:00+00:00") == "1.90"
