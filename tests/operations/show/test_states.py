"""The four truths of a resource side by side, none of them taken for another."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from reconciler.cli.text import render
from reconciler.cli.views import states as states_view
from reconciler.model.host.capacity import ClaimState
from reconciler.model.plan.lifecycle import StepState
from reconciler.model.problem import ProblemError
from reconciler.model.ref import Ref
from reconciler.model.state.world import OpenStep, World
from reconciler.operations.show.states import StateRow, states_of
from tests.planner.fleet import NOW, allocation, base_fleet, desired, node, sku
from tests.planner.walk import settled

A, NODE = Ref("allocation", "vision", "a"), Ref("node", "", "gpu01")
FLEET = [*(one for one in base_fleet(1) if one["kind"] != "Node"), node("gpu01", 2)]
WITH_A = [*FLEET, allocation("a")]


def rows(ref: Ref, documents: list[dict], world: World) -> dict[str, StateRow]:
    return {row.what: row for row in states_of(ref, desired(documents), world, NOW).rows}


def cleaning(world: World) -> World:
    """Its one allocation is given up, and its host is being told so."""
    claims = tuple(replace(one, state=ClaimState.RELEASING) for one in world.claims)
    step = OpenStep(
        run="run-2",
        step="x",
        ref=A,
        verb="allocation.release",
        node="gpu01",
        state=StepState.OPEN,
        started="2026-12-01T11:59:00Z",
    )
    return replace(world, claims=claims, open_steps=(step,))


def showing(world: World, **facts: object) -> World:
    seen = world.observations["gpu01"]
    assert seen.facts is not None
    told = replace(seen, facts=replace(seen.facts, **facts))  # type: ignore[arg-type]
    return replace(world, observations={"gpu01": told})


def test_intended_for_slices_lacking_something_being_cleaned_and_shown_as_free() -> None:
    """STM-05, STM-06: exactly this mix, and each column says its own."""
    mixed = showing(cleaning(settled(WITH_A)), os="debian-13")
    found = rows(NODE, FLEET, mixed)
    whole, held, free = found["node"], found["s0"], found["s1"]
    assert whole.desired == "active, sells baremetal, gpu_slice"
    assert whole.observed == "os: debian-13, family: debian-12"
    assert whole.execution == f"allocation.release open; releasing s0 of {A}"
    assert (held.execution, held.projected) == (f"releasing s0 of {A}", "releasing")
    assert (free.desired, free.observed, free.execution, free.projected) == (
        "approved",
        "card seen",
        "-",
        "free",
    )
    assert not any(row.stale for row in found.values())


def test_an_allocation_that_git_no_longer_names_is_still_there() -> None:
    """STM-01, STM-03: the end of a wish is not the end of the thing."""
    found = rows(A, FLEET, cleaning(settled(WITH_A)))
    assert found["allocation"].desired == "not in the specs"
    assert found["allocation"].observed == "as it was made"
    assert found["allocation"].execution == f"allocation.release open; releasing s0 of {A}"
    assert found["place"].execution == "gpu01/s0 releasing"


def test_one_that_is_wanted_and_nowhere_yet() -> None:
    found = rows(A, WITH_A, settled(FLEET))
    assert found["allocation"].desired == "specs/allocation-vision-a.yaml:1"
    for row in found.values():
        assert (row.observed, row.execution, row.projected) == ("-", "-", "-")


def test_what_a_host_shows_otherwise_is_counted_and_what_it_does_not_say_is_unknown() -> None:
    """STM-02."""
    world = settled(WITH_A)
    assert rows(A, WITH_A, world)["allocation"].observed == "as it was made"
    bare = rows(A, WITH_A, showing(world, paths={}, descriptors={}))
    wanted = len(world.recorded[A].facts)
    assert bare["allocation"].observed == f"{wanted} of {wanted} facts differ"
    assert bare["place"].observed == "no descriptor"
    mute = rows(A, WITH_A, showing(world, paths=None, descriptors=None))
    assert (mute["allocation"].observed, mute["place"].observed) == ("unknown", "unknown")


def test_what_rests_on_old_evidence_is_shown_as_stale() -> None:
    """STM-09: it stays shown, and says so."""
    world = settled(WITH_A)
    later = NOW + timedelta(hours=2)
    for ref in (NODE, A):
        found = states_of(ref, desired(WITH_A), world, later)
        assert all(row.stale for row in found.rows)
        text = "\n".join(render(line) for line in states_view.lines(found))
        assert "! stale" in text and "observed 2026-12-01T12:00:00Z by standin" in text
    silent = replace(world, observations={})
    assert all(row.stale for row in states_of(NODE, desired(WITH_A), silent, NOW).rows)


def test_what_has_no_place_on_a_host() -> None:
    ref = Ref("sku", "", "slice-1")
    world = settled(FLEET)
    assert rows(ref, FLEET, world)["sku"].projected == "in force"
    changed = [one for one in FLEET if one["metadata"]["name"] != "slice-1"]
    changed.append(sku("slice-1", displayName="another"))
    assert rows(ref, changed, world)["sku"].projected == "as applied before"
    with pytest.raises(ProblemError):
        states_of(Ref("sku", "", "none"), desired(FLEET), world, NOW)


def test_columns() -> None:
    """STM-05: four of them, by name, and one thing a row."""
    found = states_of(NODE, desired(FLEET), settled(WITH_A), NOW)
    text = [render(line) for line in states_view.lines(found)]
    assert text[2].split() == ["WHAT", "DESIRED", "OBSERVED", "EXECUTION", "PROJECTED"]
    assert [line.split()[0] for line in text[3:6]] == ["node", "s0", "s1"]
