"""Suspensions on paper: which are in force, whose doors they shut, and where keys may change."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.state.world import RecordedProblem, Suspension
from reconciler.planner.access.suspensions import before, in_force, scopes_at, touched
from tests.planner.fleet import NOW, allocation, base_fleet
from tests.planner.walk import allocation_ref, settled

A, B = allocation_ref("a"), allocation_ref("b")


def said(scope: str, since: int = -60, until: int | None = None) -> Suspension:
    """From and to so many minutes from now."""
    ends = "" if until is None else format_moment(NOW + timedelta(minutes=until))
    begun = format_moment(NOW + timedelta(minutes=since))
    return Suspension(scope=scope, reason="x", actor="olga", since=begun, until=ends)


@pytest.mark.parametrize(("until", "counts"), [(None, True), (1, True), (0, False), (-1, False)])
def test_it_ends_by_itself(until: int | None, counts: bool) -> None:
    """Rule 10."""
    assert bool(list(in_force([said("user/bo", until=until)], NOW))) is counts


def test_only_people_and_projects_are_shut_out() -> None:
    scopes = ("user/bo", "project/nlp", "node/gpu01", "all")
    assert scopes_at(map(said, scopes), NOW) == {"user/bo", "project/nlp"}


def test_what_was_in_force_at_a_time_before() -> None:
    """So that nobody is named twice as losing what they have lost already."""
    lately, long_ago = said("user/bo", since=-1), said("user/ana", since=-60)
    assert before([lately, long_ago], NOW - timedelta(minutes=5)) == {"user/ana"}


@pytest.mark.parametrize(
    ("scope", "refs"),
    [("user/bo", (A,)), ("user/ana", (A, B)), ("project/vision", (A, B)), ("node/gpu01", ())],
)
def test_whose_keys_may_change(scope: str, refs: tuple[object, ...]) -> None:
    given = [allocation("a", access=["ana", "bo"]), allocation("b")]
    assert touched(settled([*base_fleet(), *given]), scope) == refs


def test_what_was_let_go_of_or_is_leaving_is_left_alone() -> None:
    """Nobody takes it back, or shuts it off anew, by a word about somebody else."""
    world = settled([*base_fleet(), allocation("a"), allocation("b")])
    for changes in ({"problem": RecordedProblem.FORGOTTEN}, {"phase": Phase.QUARANTINED}):
        one = replace(world.recorded[A], **changes)
        changed = replace(world, recorded={**world.recorded, A: one})
        assert touched(changed, "user/ana") == (B,)
