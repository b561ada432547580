"""Forgetting: hosts have no word of data that was wiped where another one reached it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.codec import encode
from reconciler.model.plan.plan import Action, Risk
from reconciler.model.ref import Ref
from reconciler.model.state.volume import VolumeState
from reconciler.model.state.world import World
from tests.planner.fleet import base_fleet, desired, storage
from tests.planner.storage.test_attachment_rules import DATA, FLEET, having
from tests.planner.walk import applied, line, make_plan, settled, told

GPU02 = Ref("node", "", "gpu02")


def wiped(*shows: str, volume: str = "volumeaaaa") -> World:
    """These nodes show the record of data that is gone."""
    state = settled([*FLEET, storage("data", "shared"), having("a", "data")])
    gone = replace(state.volumes[DATA], id=volume, state=VolumeState.GONE)
    seen = dict(state.observations)
    for name in shows:
        facts = seen[name].facts
        paths = {**facts.paths, f"/etc/gpuaas/volumes/{volume}.json": "file 0644 sha256:0"}
        seen[name] = replace(seen[name], facts=replace(facts, paths=paths))
    return replace(state, wiped={gone.id: gone}, observations=seen)


DOCUMENTS = [*FLEET, storage("data", "shared"), having("a", "data")]


def test_a_host_forgets_what_was_wiped_elsewhere() -> None:
    """STO-07: of what is there nothing is touched, also where its storage has new data by now."""
    state = wiped("gpu02")
    made = make_plan(desired(DOCUMENTS), state)
    assert told(made) == ["change node/gpu02"]
    change, (step,) = line(made, "node/gpu02"), made.steps
    assert (change.action, change.risk) == (Action.CHANGE, Risk.SAFE)
    assert change.facts["forgets"] == "storage/vision/data (volumeaaaa), wiped"
    record = "/etc/gpuaas/volumes/volumeaaaa.json"
    backend = {"directory": {"path": "/srv/shared", "shared": True}}
    assert (step.verb, step.node) == ("storage.forget", "gpu02")
    assert encode(step.item) == {"volume": "volumeaaaa", "backend": backend, "record": record}
    assert step.expected == {record: None}
    after = applied(made, state)
    was = state.recorded[GPU02]
    assert after.recorded[GPU02] == replace(was, applied_at="", commit="c0ffee")
    assert make_plan(desired(DOCUMENTS), after).changes == ()


def test_what_is_there_is_forgotten_by_nobody() -> None:
    """F-STO-03: whatever is attached, kept or being wiped has its word on every host."""
    state = replace(wiped("gpu02"), wiped={})
    assert make_plan(desired(DOCUMENTS), state).changes == ()


def silent(state: World) -> World:
    one = replace(state.observations["gpu02"], problem="host_unreachable")
    return replace(state, observations={**state.observations, "gpu02": one})


@pytest.mark.parametrize("why", ["silent", "lost", "stranger", "changed", "not asked"])
def test_a_host_is_asked_when_it_answers_and_nothing_else_is_done_about_it(why: str) -> None:
    """The word stays until then, and harms nobody."""
    state, documents, only = wiped("gpu02"), list(DOCUMENTS), ()
    if why == "silent":
        state = silent(state)
    elif why == "stranger":
        state = replace(state, recorded={r: o for r, o in state.recorded.items() if r != GPU02})
    elif why == "not asked":
        only = (str(DATA),)
    else:
        documents = [d for d in documents if d["metadata"]["name"] != "gpu02"]
        changes: dict[str, Any] = {"labels": {"x": "y"}}
        if why == "lost":
            changes = {"admin": {"state": "lost", "reason": "burnt"}}
        before = next(d for d in base_fleet() if d["metadata"]["name"] == "gpu02")
        spec, metadata = before["spec"], before["metadata"]
        changed = {**before, "spec": {**spec, **changes}}
        if why == "changed":
            changed = {**before, "metadata": {**metadata, **changes}}
        documents.append(changed)
    made = make_plan(desired(documents), state, only=only)
    assert "storage.forget" not in [step.verb for step in made.steps]
