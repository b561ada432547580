"""A comparison holds what one plan has beyond another, and nothing that could be applied."""

from __future__ import annotations

from dataclasses import replace

from reconciler.model.host.capacity import Placement, Shape
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.comparison import Comparison, ComparisonBase
from reconciler.model.plan.plan import Action, Change, FleetFigures, Plan, Risk
from reconciler.model.problem import Problem, Source
from reconciler.model.ref import Ref
from reconciler.model.spec.revision import Revision
from reconciler.planner.comparison import compare_plans

BASE = ComparisonBase(revision="origin/main", commit="c" * 40)


def change(name: str, action: Action = Action.CREATE, **more: object) -> Change:
    return replace(Change(ref=Ref("allocation", "vision", name), action=action), **more)


def plan(*changes: Change, **more: object) -> Plan:
    made = Plan(
        revision=Revision(commit="a" * 40),
        desired_digest="d",
        state_id="s",
        serial=1,
        made_at="2026-12-01T12:00:00Z",
        changes=changes,
        fingerprint="sha256:1234",
    )
    return replace(made, **more)


def compared(ours: Plan, theirs: Plan) -> Comparison:
    return compare_plans(ours, theirs, BASE)


def names(changes: tuple[Change, ...]) -> list[str]:
    return [one.ref.name for one in changes]


def test_brought_withdrawn_and_shared() -> None:
    both, mine, other = change("both"), change("mine"), change("other", Action.RELEASE)
    found = compared(plan(mine, both), plan(both, other))
    assert names(found.plan.changes) == ["mine"]
    assert names(found.withdrawn) == ["other"]
    assert names(found.shared) == ["both"]


def test_words_for_people_make_no_difference() -> None:
    ours = change("one", summary="held 3 s", facts={"why": "x"}, line=3)
    theirs = change("one", summary="held 4 s", facts={"why": "y"}, line=9)
    found = compared(plan(ours), plan(theirs))
    assert not found.plan.changes and names(found.shared) == ["one"]


def test_what_differs_says_what_the_base_would() -> None:
    """Another place, risk, price or refusal is a change of the branch, told beside the other."""

    def placed(node: str) -> Change:
        at = Placement(node=node, slots=("s0",), shape=Shape.GPU_SLICE)
        return change("one", placement=at, summary="1 GPU")

    refused = change("one", problem=Problem(code="sku_unavailable", message="full"))
    for theirs, told in (
        (placed("gpu02"), "origin/main would: create · gpu02/s0 · 1 GPU"),
        (refused, "origin/main would: create · sku_unavailable"),
        (change("one", Action.RELEASE, risk=Risk.DESTROYS), "origin/main would: release"),
    ):
        found = compared(plan(placed("gpu01")), plan(theirs))
        assert [one.facts["before"] for one in found.plan.changes] == [told]
        assert not found.withdrawn and not found.shared


def test_only_new_problems_count() -> None:
    """Lines move when something is written above them; a file or a message does not."""

    def problem(message: str, line: int) -> Problem:
        return Problem(
            code="value_type", message=message, source=Source(file="a.yaml", line=line, column=1)
        )

    found = compared(
        plan(problems=(problem("old", 9), problem("new", 1))),
        plan(problems=(problem("old", 2), problem("gone", 1))),
    )
    assert [one.message for one in found.plan.problems] == ["new"]
    assert found.mended == 1


def test_nothing_of_it_can_be_applied() -> None:
    claim = ClaimIntent(
        id="c",
        allocation_id="a",
        ref=Ref("allocation", "vision", "one"),
        node="gpu01",
        slot="s0",
        shape=Shape.GPU_SLICE,
        tenant="corp",
        project="vision",
    )
    found = compared(plan(change("one"), claims=(claim,)), plan()).plan
    assert (found.fingerprint, found.claims, found.steps) == ("", (), ())


def test_figures_and_prices_are_of_the_difference() -> None:
    ours = plan(
        change("one", price_per_hour={"EUR": "2.10"}),
        change("both", price_per_hour={"EUR": "1.00"}),
        figures=FleetFigures(gpus=8, gpus_held_before=1, gpus_held_after=5),
    )
    theirs = plan(
        change("both", price_per_hour={"EUR": "1.00"}),
        change("other", price_per_hour={"EUR": "0.30"}),
        figures=FleetFigures(gpus=8, gpus_held_before=1, gpus_held_after=3),
    )
    found = compared(ours, theirs)
    assert (found.plan.figures.gpus_held_before, found.plan.figures.gpus_held_after) == (3, 5)
    assert found.price_per_hour == {"EUR": "1.80"}
