"""Devices: two slots with one of them are given to nobody, whatever they call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.state.world import World
from tests.planner.fleet import allocation, base_fleet, desired, node, slot, world
from tests.planner.walk import line, make_plan

PORT = "port 0000:0c:00.0"
NIC = {"pciAddress": "0000:0c:00.0", "rdma": True}
OTHER_NIC = {"pciAddress": "0000:0d:00.0", "rdma": True}


def drive(name: str) -> dict[str, Any]:
    return {"nvme": {"id": name, "sizeGiB": 100}}


def fleet(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    slots = [slot("gpu01", 0, **first), slot("gpu01", 1, **second), slot("gpu01", 2)]
    return [*base_fleet(0), node("gpu01", slots), allocation("a", "slice-2")]


def seen(documents: list[dict[str, Any]], named: Mapping[str, str] | None) -> World:
    of = desired(documents)
    before = world(of)
    one = before.observations["gpu01"]
    assert one.facts is not None
    platform = None
    if named is not None:
        platform = {"device *": "listed", **{f"device {k}": v for k, v in named.items()}}
    facts = replace(one.facts, platform=platform)
    return replace(before, observations={"gpu01": replace(one, facts=facts)})


SHARED = [
    (drive("nvme-a"), drive("nvme-b"), {"nvme-a": "drive nvme0n1", "nvme-b": "drive nvme0n1"}),
    (
        {"nic": {**NIC, "name": "ens7"}},
        {"nic": {**OTHER_NIC, "name": "mlx5_0"}},
        {"0000:0c:00.0": PORT, "0000:0d:00.0": "port 0000:0d:00.0", "ens7": PORT, "mlx5_0": PORT},
    ),
]


@pytest.mark.parametrize(("first", "second", "named"), SHARED)
def test_a_device_of_two_slots_is_given_to_nobody(
    first: Mapping[str, Any], second: Mapping[str, Any], named: Mapping[str, str]
) -> None:
    """F-REAL-08: only a look can tell, so placement asks it."""
    documents = fleet(first, second)
    change = line(make_plan(desired(documents), seen(documents, named)), "allocation/vision/a")
    assert change.problem is not None
    assert "device in two slots" in change.problem.message
    told_apart = {name: f"drive or port {name}" for name in named}
    change = line(make_plan(desired(documents), seen(documents, told_apart)), "allocation/vision/a")
    assert change.placement is not None


def test_the_third_slot_is_given_out_still() -> None:
    """F-REAL-08: one odd thing costs that thing."""
    first, second, named = SHARED[0]
    documents = [d for d in fleet(first, second) if d["kind"] != "Allocation"]
    documents.append(allocation("a"))
    change = line(make_plan(desired(documents), seen(documents, named)), "allocation/vision/a")
    assert change.placement is not None
    assert change.placement.slots == ("s2",)
