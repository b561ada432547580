"""Scenarios as data: a fleet, what is applied, what git wants, and the lines of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Risk
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Origin
from reconciler.model.state.world import World
from tests.planner.fleet import allocation, base_fleet, claim, desired, node, project, world
from tests.planner.walk import applied, make_plan, told

FOLDER = Path(__file__).parents[1] / "scenarios"
SCENARIOS = [
    pytest.param(one, id=one["name"])
    for path in sorted(FOLDER.glob("*.yaml"))
    for one in yaml.safe_load(path.read_text(encoding="utf-8"))
]
KNOWN = frozenset(
    {
        *("name", "nodes", "before", "now", "plan", "claims", "phases", "silent", "changed_nodes"),
        *("fresh_nodes", "frozen", "broken", "quota", "hold_above", "author", "only", "risk"),
        *("steps", "new_claims"),
    }
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: Mapping[str, Any]) -> None:
    """F-PLN-02 F-PLN-03 F-PLN-04 F-PLN-09 F-PLC-02 F-PLC-12 and more: see each name."""
    assert scenario.keys() <= KNOWN
    state = state_before(scenario)
    wanted = desired(
        documents(scenario, scenario["now"], "changed_nodes"),
        frozen=frozenset(map(as_ref, scenario.get("frozen", ()))),
        broken=frozenset(file_of(as_ref(name)) for name in scenario.get("broken", ())),
    )
    author = Origin(commit="c0", email=f"{scenario.get('author', 'ana')}@corp.example")
    made = make_plan(
        wanted,
        state,
        origins=lambda files, gone: dict.fromkeys(files, author),
        only=tuple(scenario.get("only", ())),
        hold_above=Risk(scenario["hold_above"]) if "hold_above" in scenario else None,
    )
    assert told(made) == scenario["plan"]
    if "risk" in scenario:
        assert max(LEVELS.index(change.risk) for change in made.changes) == LEVELS.index(
            Risk(scenario["risk"])
        )
    if "steps" in scenario:
        assert len(made.steps) == scenario["steps"]
    if "new_claims" in scenario:
        assert len(made.claims) == scenario["new_claims"]
    for change in made.changes:
        assert not (change.problem and change.steps)


LEVELS = (Risk.SAFE, Risk.INTERRUPTS, Risk.DESTROYS)


def state_before(scenario: Mapping[str, Any]) -> World:
    """The World after the fleet and `before` are applied, then turned as the scenario says."""
    first = desired(documents(scenario, scenario.get("before", {})))
    start = world(first)
    plain = {k: v for k, v in first.resources.items() if k.kind != "node"}
    fresh = replace(first, resources=plain) if scenario.get("fresh_nodes") else first
    state = applied(make_plan(fresh, start), start)
    claims = tuple(
        claim(name, host, place)
        for name, host, place in (text.split() for text in scenario.get("claims", ()))
    )
    recorded = dict(state.recorded)
    for name, phase in scenario.get("phases", {}).items():
        recorded[as_ref(name)] = replace(recorded[as_ref(name)], phase=Phase(phase))
    seen = {
        name: replace(one, facts=None, problem="host_timeout")
        if name in scenario.get("silent", ())
        else one
        for name, one in state.observations.items()
    }
    return replace(state, recorded=recorded, claims=(*state.claims, *claims), observations=seen)


def documents(
    scenario: Mapping[str, Any], wanted: Mapping[str, Any], nodes: str = "nodes"
) -> Iterator[dict[str, Any]]:
    hosts = scenario.get(nodes) or scenario.get("nodes") or {"gpu01": {}, "gpu02": {}}
    quota = scenario.get("quota", {}) if wanted is scenario["now"] else {}
    for one in base_fleet(0):
        name = one["metadata"]["name"]
        if one["kind"] == "Project" and name in quota:
            yield project(name, "ana", "bo", gpus=quota[name])
        else:
            yield one
    for name, spec in hosts.items():
        yield node(name, **spec)
    for place, spec in wanted.items():
        where, name = place.split("/")
        values = {"sku": spec} if isinstance(spec, str) else spec
        owner = "ana" if where == "vision" else "bo"
        yield allocation(name, project=where, **{"owner": owner, **values})


def as_ref(place: str) -> Ref:
    return Ref("allocation", *place.split("/"))


def file_of(ref: Ref) -> str:
    return f"specs/{str(ref).replace('/', '-')}.yaml"
