"""Drift: all that a host shows otherwise or could not say, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.model.evidence import NodeFacts, Observation
from reconciler.model.lifecycle import Phase
from reconciler.model.ref import Ref
from reconciler.model.world import Recorded, World
from reconciler.planner.drift import drift_of

TRAIN, NODE = Ref("allocation", "vision", "train"), Ref("node", "", "gpu01")
KEYS, HOME, ENV = "/etc/gpuaas/ssh/train-a", "/home/train-a", "/etc/gpuaas/a.env"
FACTS: Mapping[str, str | None] = {
    KEYS: "file 0644 sha256:a",
    ENV: "file 0644 sha256:b",
    HOME: "dir 0700",
    "shm train-a": "tmpfs 1",
}
PATHS = {key: fact for key, fact in FACTS.items() if key.startswith("/") and fact}
PLATFORM = {"shm *": "listed", "shm train-a": "tmpfs 1", "sshd tenants": "x=1"}


def world(**changes: object) -> World:
    facts = NodeFacts(source="host", paths=PATHS, platform=PLATFORM)
    seen = Observation(node="gpu01", at="", facts=replace(facts, **changes))  # type: ignore[arg-type]
    recorded = (
        Recorded(ref=TRAIN, normal={}, digest="", id="a", node="gpu01", facts=FACTS),
        Recorded(ref=NODE, normal={}, digest="", facts={"sshd tenants": "x=1"}),
    )
    return World(
        state_id="s",
        serial=1,
        recorded={one.ref: one for one in recorded},
        observations={"gpu01": seen},
    )


def told(of: World) -> list[tuple[str, str, str]]:
    return [(str(note.ref), note.topic, note.text) for note in drift_of(of, ())]


def test_what_is_as_it_was_made_is_not_told() -> None:
    assert told(world()) == []
    assert told(world(paths={**PATHS, "/home/other": "dir 0777"})) == []


def test_each_difference_is_told_by_what_it_is() -> None:
    """F-ANS-14: other content, another mode, gone; and keys are a matter of access."""
    paths = {KEYS: "file 0644 sha256:x", HOME: "dir 0777"}
    assert told(world(paths=paths, platform={"shm *": "listed", "sshd tenants": "x=1"})) == [
        (str(TRAIN), "host", f"{ENV} on gpu01 is gone"),
        (str(TRAIN), "access", f"{KEYS} on gpu01 has other content"),
        (str(TRAIN), "host", f"{HOME} on gpu01 is dir 0777, not dir 0700"),
        (str(TRAIN), "host", "shm train-a on gpu01 is gone"),
    ]


def test_what_could_not_be_checked_is_told_as_that() -> None:
    """F-ANS-14, F-ANS-03: a listing that failed, and a setting that nobody told, hosts' too."""
    assert {(ref, topic) for ref, topic, _ in told(world(paths=None, platform=None))} == {
        (str(TRAIN), "unchecked"),
        (str(NODE), "unchecked"),
    }
    (only,) = told(world(platform={**PLATFORM, "sshd tenants": "unknown: no answer"}))
    assert only == (str(NODE), "unchecked", "sshd tenants on gpu01: unknown: no answer")


def test_of_what_is_silent_under_way_or_told_already_nothing_is_told() -> None:
    changed = world(paths={})
    silent = replace(changed.observations["gpu01"], facts=None, problem="host_timeout")
    assert told(replace(changed, observations={"gpu01": silent})) == []
    assert list(drift_of(changed, {TRAIN})) == []
    leaving = replace(changed.recorded[TRAIN], phase=Phase.RELEASING)
    assert told(replace(changed, recorded={TRAIN: leaving})) == []
