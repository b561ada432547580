"""A plan that is revised under way: its steps as they are now, none added, what is begun ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from reconciler.model.plan.plan import Plan
from reconciler.model.state.world import Suspension
from reconciler.operations.apply.suspension_watch import SuspensionWatch, revise
from tests.planner.fleet import allocation, base_fleet, desired, world
from tests.planner.walk import allocation_ref, make_plan

A, B = allocation_ref("a"), allocation_ref("b")
ASKED = desired([*base_fleet(), allocation("a", access=["ana", "bo"]), allocation("b")])


def made(*scopes: str) -> Plan:
    """The plan of two newcomers, where so much is suspended."""
    said = tuple(
        Suspension(scope=scope, reason="x", actor="olga", since="2026-01-01T00:00:00Z")
        for scope in scopes
    )
    return make_plan(ASKED, replace(world(ASKED), suspensions=said))


def test_what_is_still_to_be_done_is_done_without_them() -> None:
    """F-REAL-24: each step in its new form, and in its place."""
    before, fresh = made(), made("user/bo")
    revised = revise(before, fresh, 0)
    assert revised.plan.waves == fresh.waves and revised.problems == ()
    assert before.waves != fresh.waves, "one of them has his key in it"
    assert revised.plan.fingerprint == before.fingerprint, "consent was given to what was shown"


def test_what_is_begun_is_ended_and_recorded_as_it_was_made() -> None:
    """F-REAL-24: so that the rest is seen to be due afterwards."""
    before = made()
    for fresh in (made("user/bo"), made("all")):
        revised = revise(before, fresh, len(before.waves))
        assert revised.plan.waves == before.waves and revised.left_out == frozenset()
        assert revised.plan.active == before.active


def test_what_can_be_no_more_is_left_out_and_nothing_is_added() -> None:
    """F-REAL-24: where everything is suspended nobody is placed; and nobody comes in addition."""
    before, fresh = made(), made("all")
    assert not [step for step in fresh.steps if step.ref in (A, B)]
    revised = revise(before, fresh, 0)
    assert revised.left_out == {A, B}
    assert [problem.code for problem in revised.problems] == ["suspended_meanwhile"] * 2
    assert [step for step in revised.plan.steps if step.ref in (A, B)] == []
    assert revise(fresh, before, 0).plan.steps == fresh.steps


def test_what_is_recorded_is_of_before_a_word_that_the_plan_did_not_know() -> None:
    """F-REAL-24: so that who was let in by its steps is named, as long as they may be inside."""
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    known = Suspension(scope="user/a", reason="x", actor="o", since="2026-01-01T10:00:00Z")
    said = [known]
    journal: Any = SimpleNamespace(read=lambda table: tuple(said), version=lambda: len(said))
    revocations: Any = SimpleNamespace(journal=journal)
    watch = SuspensionWatch(revocations=revocations, known=(known,))
    assert watch.moment_of_record(now) == "2026-01-01T12:00:00Z"
    said.append(replace(known, scope="user/bo", since="2026-01-01T11:59:58Z"))
    assert watch.moment_of_record(now) == "2026-01-01T11:59:58Z"
