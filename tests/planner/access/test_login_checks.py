"""Whom a host keeps out, though what was made for them shows: told, and never called sound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.model.host.evidence import NodeFacts
from reconciler.model.plan.drift import Becomes, DriftClass
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded, World
from reconciler.operations.inventory.allocations import stage_in
from reconciler.operations.inventory.health import health_of
from reconciler.planner.access.login_checks import PROBE, refusal_of_all, refusals
from reconciler.planner.drift.detect import drifts
from reconciler.planner.nodes.prepare import unprepared
from tests.planner import fleet as paper

DESIRED = paper.desired(
    [paper.family(), paper.node("gpu01", [paper.slot("gpu01", 0)], isolation="account")]
)
(NODE,) = DESIRED.of("node")
TRAIN = Ref("allocation", "vision", "train")
LOGIN = "train-aaaa"
SOUND = {f"login {LOGIN}": "admitted", f"keys {LOGIN}": "accepted", PROBE: "admitted"}
REFUSED = "refused: PAM: Authentication failure down for maintenance"


def recorded(**changes: object) -> Recorded:
    one = Recorded(
        ref=TRAIN,
        normal={"labels": {}, "spec": {"owner": "ana", "sku": "slice-1"}},
        digest="d",
        id="aaaabbbbcc",
        node="gpu01",
        slots=("s0",),
        login=LOGIN,
        phase=Phase.ACTIVE,
        basis="b",
        facts={f"login {LOGIN}": "admitted"},
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def world(one: Recorded, **platform: str) -> World:
    named = {"login *": "listed", "keys *": "listed", "sshd *": "listed", **SOUND, **platform}
    node = Recorded(ref=NODE.ref, normal=NODE.normal, digest=NODE.digest, basis="b", facts={})
    return paper.world(
        DESIRED,
        recorded={TRAIN: one, NODE.ref: replace(node, facts={"sshd tenants": "x"})},
        observations={"gpu01": paper.observation(NODE, platform={"sshd tenants": "x", **named})},
    )


def health_in(around: World) -> str:
    return health_of(around.recorded[TRAIN], stage_in(around, TRAIN), around).word


@pytest.mark.parametrize(
    ("facts", "key", "shown"),
    [
        ({f"login {LOGIN}": "admitted"}, f"login {LOGIN}", REFUSED),
        ({}, f"login {LOGIN}", REFUSED),
        ({}, f"keys {LOGIN}", "refused: ana/laptop is ssh-rsa of 1024 bits"),
    ],
)
def test_whoever_is_kept_out_is_told_and_nothing_is_called_sound(
    facts: dict[str, str], key: str, shown: str
) -> None:
    """F-REAL-12: whenever it was made, and by what; no apply of ours can mend a host's list."""
    around = world(recorded(facts=facts), **{key: shown})
    (found,) = [one for one in drifts(DESIRED, around, paper.NOW) if one.ref == TRAIN]
    assert (found.key, found.kind, found.becomes) == (key, DriftClass.EVIDENCE, Becomes.REPORTED)
    assert shown in found.text
    assert health_in(around) == "degraded"


def test_whoever_gets_in_is_sound() -> None:
    around = world(recorded())
    assert not [one for one in drifts(DESIRED, around, paper.NOW) if one.ref == TRAIN]
    assert health_in(around) == "healthy"
    assert unprepared(NODE, around) == ""


def test_a_host_that_lets_nobody_in_is_offered_to_nobody() -> None:
    """F-REAL-12: the probe is a tenant like any other."""
    around = world(recorded(), **{PROBE: REFUSED})
    assert unprepared(NODE, around) == f"{PROBE} is {REFUSED}"
    (found,) = drifts(DESIRED, around, paper.NOW)
    assert (found.ref, found.becomes) == (NODE.ref, Becomes.REPORTED)
    assert health_in(around) == "degraded"


def test_what_nobody_could_try_is_no_refusal() -> None:
    named = {PROBE: "unknown: the host has no ssh", f"login {LOGIN}": "unknown: no answer"}
    facts = NodeFacts(source="host", platform=named)
    assert refusal_of_all(facts) == refusal_of_all(None) == ""
    assert list(refusals(recorded(), facts)) == list(refusals(recorded(), None)) == []
