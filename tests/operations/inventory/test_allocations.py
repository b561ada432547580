"""Allocations as people see them: how busy their cards are, and how old that is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.model.state.world import World
from reconciler.operations.inventory.allocations import allocation_rows
from reconciler.operations.inventory.stock import take_stock
from reconciler.operations.views import AllocationRow
from tests.planner.fleet import NOW, SETTINGS, allocation, base_fleet
from tests.planner.walk import allocation_ref, settled

A = allocation_ref("a")


def row_of(world: World) -> AllocationRow:
    (row,) = allocation_rows(SETTINGS, world, take_stock(SETTINGS, world, NOW))
    return row


def busy(*percents: int | None) -> World:
    """An allocation of two slots, with its cards as busy as that."""
    world = settled([*base_fleet(nodes=1, slots=2), allocation("a", "slice-2")])
    seen = world.observations["gpu01"]
    assert seen.facts is not None and seen.facts.gpus is not None
    cards = zip(seen.facts.gpus, percents, strict=True)
    gpus = tuple(replace(gpu, utilization=percent) for gpu, percent in cards)
    told = replace(seen, facts=replace(seen.facts, gpus=gpus))
    return replace(world, observations={"gpu01": told})


@pytest.mark.parametrize(
    ("percents", "told"), [((40, 20), 30), ((0, 0), 0), ((40, None), None), ((None, None), None)]
)
def test_how_busy_its_cards_are_is_told_with_its_age(
    percents: tuple[int | None, ...], told: int | None
) -> None:
    """ALC-09, VIS-12: of all of its cards or of none; half an answer is no answer."""
    world = busy(*percents)
    row = row_of(world)
    assert row.gpu_percent == told
    assert row.observed_at == world.observations["gpu01"].at


def test_of_a_silent_host_no_load_is_told() -> None:
    world = busy(40, 20)
    silent = replace(world.observations["gpu01"], facts=None, problem="host_unreachable")
    row = row_of(replace(world, observations={"gpu01": silent}))
    assert (row.gpu_percent, row.observed_at) == (None, "")
