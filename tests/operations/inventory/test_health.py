"""Health of an allocation: what its host shows of it, and why it is called so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.condition import CAUSES, Condition, Health
from reconciler.model.plan.lifecycle import Phase, Stage
from reconciler.model.state.world import Recorded, World
from reconciler.operations.inventory.health import RULES, health_of, health_of_begun
from tests.planner.fleet import allocation, base_fleet
from tests.planner.walk import allocation_ref, settled

A = allocation_ref("a")
SILENT_SINCE = "2026-11-27T08:00:00Z"


@pytest.fixture(scope="module")
def whole() -> World:
    return settled([*base_fleet(nodes=1, slots=2), allocation("a", "slice-2")])


def told(
    world: World, stage: Stage = Stage.READY, facts: dict[str, Any] | None = None, **changes: Any
) -> Condition:
    """With other facts of its host and other fields of its record."""
    seen = world.observations["gpu01"]
    assert seen.facts is not None
    around = replace(seen, facts=replace(seen.facts, **(facts or {})))
    one: Recorded = replace(world.recorded[A], **changes)
    return health_of(one, stage, replace(world, observations={"gpu01": around}))


def without_a_file(world: World) -> Condition:
    facts = world.observations["gpu01"].facts
    assert facts is not None and facts.paths
    paths = {path: fact for path, fact in facts.paths.items() if not path.startswith("/home/")}
    return told(world, facts={"paths": paths})


def shut_out(world: World) -> Condition:
    login = world.recorded[A].login
    platform = {f"login {login}": "refused: down for maintenance", "login *": "listed"}
    return told(world, facts={"platform": platform})


def silent(world: World) -> Condition:
    seen = replace(
        world.observations["gpu01"],
        facts=None,
        problem="host_unreachable",
        unreachable_since=SILENT_SINCE,
    )
    return health_of(world.recorded[A], Stage.READY, replace(world, observations={"gpu01": seen}))


CASES: dict[tuple[Health, str], Callable[[World], Condition]] = {
    (Health.HEALTHY, ""): told,
    (Health.DEGRADED, "failed"): lambda w: told(w, Stage.CLAIMED, phase=Phase.FAILED),
    (Health.DEGRADED, "unproved"): lambda w: told(w, Stage.UNPROVED, phase=Phase.RELEASING),
    (Health.DEGRADED, "card_missing"): lambda w: told(w, facts={"gpus": ()}),
    (Health.DEGRADED, "differs"): without_a_file,
    (Health.DEGRADED, "shut_out"): shut_out,
    (Health.UNKNOWN, "unseen"): silent,
    (Health.UNKNOWN, "in_doubt"): lambda w: told(w, Stage.IN_DOUBT),
    (Health.UNKNOWN, "untold"): lambda w: told(w, facts={"paths": None}),
    (Health.PROGRESSING, "admitting"): lambda w: told(w, Stage.ADMITTING, phase=Phase.PROVIDING),
    (Health.PROGRESSING, "wiping"): lambda w: told(w, Stage.WIPING, phase=Phase.RELEASING),
    (Health.PROGRESSING, "quarantined"): lambda w: told(
        w, Stage.QUARANTINED, phase=Phase.QUARANTINED
    ),
}


@pytest.mark.parametrize(("word", "cause"), CASES, ids="/".join)
def test_each_word_has_its_cause(whole: World, word: Health, cause: str) -> None:
    """REC-07"""
    found = CASES[word, cause](whole)
    assert (found.word, found.cause) == (word, cause)
    assert found.since == (SILENT_SINCE if cause == "unseen" else "")


def test_no_rule_is_without_a_case() -> None:
    rules = {key for key, _ in RULES if key[0] is not Health.PROGRESSING}
    assert rules == {key for key in CASES if key[0] is not Health.PROGRESSING}
    assert {cause for _, cause in rules if cause} == CAUSES.keys()


def test_a_host_that_does_not_list_its_cards_has_not_said_that_they_are_gone(whole: World) -> None:
    assert told(whole, facts={"gpus": None}) == Condition(word=Health.UNKNOWN, cause="unseen")


def test_of_a_host_that_is_silent_nothing_else_is_told(whole: World) -> None:
    """Whatever was seen before, it may be otherwise by now."""
    for phase, stage in ((Phase.FAILED, Stage.CLAIMED), (Phase.RELEASING, Stage.UNPROVED)):
        found = told(whole, stage, facts={"gpus": None}, phase=phase)
        assert found == Condition(word=Health.UNKNOWN, cause="unseen")


def test_in_quarantine_what_is_wrong_is_still_told(whole: World) -> None:
    found = told(whole, Stage.QUARANTINED, phase=Phase.QUARANTINED, facts={"gpus": ()})
    assert found.cause == "card_missing"


def test_what_was_begun_goes_on_only_while_somebody_is_at_it() -> None:
    begun = [health_of_begun(Stage.CLAIMED, at_work=at_work).word for at_work in (True, False)]
    assert begun == [Health.PROGRESSING, Health.UNKNOWN]
