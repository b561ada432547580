"""Failures: nodes that least counts against are asked first, and what counts is forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.host.evidence import Check, CheckResult, NodeFacts
from reconciler.model.moment import format_moment
from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.state.failure import Failure, basis_of
from reconciler.model.state.world import World
from reconciler.planner.placement.inventory import read_offers
from reconciler.planner.placement.scheduler import Placer
from reconciler.planner.proof.refusal import let_go
from tests.harness.items import make_item
from tests.planner.fleet import NOW, allocation, base_fleet, claim, desired, need, world
from tests.planner.walk import line, make_plan

REF = Ref("allocation", "vision", "a")
OF = desired([*base_fleet(3), allocation("a")])


def facts_of(node: str) -> NodeFacts | None:
    return world(OF).observations[node].facts


def failure(node: str, count: int = 1, hours: float = 0.0) -> Failure:
    return Failure(
        node=node,
        count=count,
        since=format_moment(NOW),
        at=format_moment(NOW - timedelta(hours=hours)),
        verb="allocation.provide",
        ref=REF,
        code="path_unsafe",
        message="/home is a link",
        basis=basis_of(facts_of(node)),
    )


def seen(*failures: Failure, **changes: Any) -> World:
    return world(OF, failures={one.node: one for one in failures}, **changes)


@pytest.mark.parametrize(
    ("failures", "first"),
    [
        ((), "gpu01"),
        ((failure("gpu01"),), "gpu02"),
        ((failure("gpu01"), failure("gpu02", 3)), "gpu03"),
        ((failure("gpu01", 2), failure("gpu02", 3), failure("gpu03")), "gpu03"),
        ((failure("gpu01", hours=1.5),), "gpu01"),
        ((failure("gpu01", 8, hours=1.5),), "gpu02"),
        ((failure("gpu01", 8, hours=5),), "gpu01"),
    ],
)
def test_the_node_that_least_counts_against_is_asked_first(
    failures: tuple[Failure, ...], first: str
) -> None:
    """F-REAL-09: half of it is forgotten in an hour."""
    placement = line(make_plan(OF, seen(*failures)), str(REF)).placement
    assert placement is not None
    assert placement.node == first


def test_a_tighter_fit_counts_less_than_a_failure() -> None:
    """F-REAL-09: what was refused once is refused again beside an empty node that is ready."""
    held = [claim("x", "gpu01", "s0")]
    offers = read_offers(OF, seen(failure("gpu01")), NOW, {})
    placer = Placer(offers, held)
    assert [one.node for one in placer.explain(need("a"))] == ["gpu02", "gpu03", "gpu01"]
    found = [placer.place(need(name, 8)) for name in "abc"]
    assert [one.node if one else None for one in found] == ["gpu02", "gpu03", None]
    last = placer.place(need("d"))
    assert last is not None
    assert last.node == "gpu01", "where nobody else has room, it is asked"


@pytest.mark.parametrize(
    "changed",
    [{"boot_id": "boot-2"}, {"os": "debian-13"}, {"platform": {"folder /home": "dir 0711"}}],
)
def test_a_host_that_has_become_another_starts_anew(changed: Mapping[str, Any]) -> None:
    """F-REAL-09: another boot, another system, or what it shows since it was mended."""
    one, before = failure("gpu01"), facts_of("gpu01")
    assert before is not None
    assert one.weight(before, NOW) == 1
    assert one.weight(replace(before, sessions={"x": 1}), NOW) == 1, "tenants change nothing"
    assert one.weight(replace(before, **changed), NOW) == 0
    assert one.weight(before, NOW - timedelta(days=1)) == 1, "a clock that was set back"
    assert one.weight(before, NOW + timedelta(days=1000)) == 0


CLAIM = claim("a", "gpu01", "s0", allocation_id="aaaa")
STEP = Step(
    id="1",
    verb="allocation.provide",
    node="gpu01",
    ref=REF,
    order=make_plan(OF).steps[0].order,
    item=make_item("allocation.provide", id="aaaa", login="a-aaaa"),
    expected={"/home/a-aaaa": "dir 0700", "/etc/gpuaas/allocations/aaaa.json": "file 0644"},
)
REFUSED = StepOutcome(
    step=STEP, ok=False, changed=False, problem=Problem(code="path_unsafe", message="no")
)


def proofs(outcome: StepOutcome = REFUSED, **changes: Any) -> tuple[Check, ...]:
    known = world(OF).observations["gpu01"]
    assert known.facts is not None
    observed = replace(known, facts=replace(known.facts, **changes))
    found = let_go([CLAIM], ([STEP], [outcome]), observed, "2026-12-01T12:00:00Z")
    return found[0].checks if found else ()


def test_a_refused_untouched_claim_is_proved_to_be_nothing() -> None:
    """F-REAL-09: by its word that it changed nothing, and by what it shows."""
    assert [one.name for one in proofs()] == ["refused", "made", "descriptor"]
    assert all(one.result is CheckResult.PASS for one in proofs())
    assert proofs(paths={"/home": "link data"}), "it would never have gone through a link"


@pytest.mark.parametrize(
    "outcome",
    [
        replace(REFUSED, changed=True),
        replace(REFUSED, unknown=True),
        replace(REFUSED, problem=None, ok=True),
    ],
)
def test_a_host_that_may_have_done_something_is_not_believed(outcome: StepOutcome) -> None:
    """F-REAL-09: unknown is not absent."""
    assert proofs(outcome) == ()


@pytest.mark.parametrize(
    "shown",
    [
        {"paths": {"/home/a-aaaa": "dir 0700"}},
        {"paths": {"/home/a-aaaa/x": "file 0600"}},
        {"paths": None},
        {"descriptors": None},
        {"descriptors": {"aaaa": "state-1"}},
    ],
)
def test_what_shows_or_is_not_told_lets_go_of_nothing(shown: Mapping[str, Any]) -> None:
    """F-REAL-09: a receipt is not a proof."""
    assert proofs(**shown) == ()
