"""How a plan of now stands to what is applied: a word each, and what it would not do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.model.condition import Condition
from reconciler.model.plan.plan import Action, Change, Plan
from reconciler.model.problem import Problem, Severity
from reconciler.model.ref import Ref
from reconciler.operations.inventory.sync import SYNC, needs_of, standing_of, sync_of, synced
from reconciler.operations.views import AllocationRow
from tests.cli.conftest import make

TRAIN = Ref("allocation", "vision", "train")
SOLO, EVAL = (Ref("allocation", "vision", name) for name in ("solo", "eval"))


def change(action: Action, code: str = "", ref: Ref = TRAIN) -> Change:
    problem = Problem(code=code, message="why") if code else None
    normal = {"spec": {"owner": "ana", "sku": "slice-1"}}
    return Change(ref=ref, action=action, problem=problem, normal=normal)


CASES = {
    "held": change(Action.RELEASE, "held_for_approval"),
    "waiting": change(Action.BLOCKED, "sku_unavailable"),
    "blocked": change(Action.CHANGE, "protected"),
    "drifted": change(Action.REPAIR),
    "changes": change(Action.RESTART),
}
CAUSES = {
    "held": "held_for_approval",
    "waiting": "sku_unavailable",
    "blocked": "protected",
    "drifted": "repair",
    "changes": "restart",
}


@pytest.mark.parametrize("word", [word for word, _ in SYNC])
def test_every_row_has_its_change(word: str) -> None:
    """REC-07: a word and its cause."""
    assert sync_of(CASES[word]) == Condition(word=word, cause=CAUSES[word])


def test_what_is_frozen_is_blocked() -> None:
    assert sync_of(change(Action.FROZEN)) == Condition(word="blocked", cause="frozen")


def row(name: str = "train", project: str = "vision") -> AllocationRow:
    return AllocationRow(
        ref=f"allocation/{project}/{name}", owner="ana", sku="slice-1", node="gpu01",
        slots=("s0",), phase="active", health="healthy", login="x",
    )  # fmt: skip


def test_of_what_no_plan_speaks_is_in_sync() -> None:
    other = change(Action.CREATE, "sku_unavailable", EVAL)
    found = list(synced([row(), row("solo")], standing_of(make(CASES["changes"], other))))
    assert [(one.ref, one.sync) for one in found] == [
        ("allocation/vision/eval", "waiting"),
        ("allocation/vision/solo", "in_sync"),
        ("allocation/vision/train", "changes"),
    ]
    assert (found[0].owner, found[0].sku, found[0].node) == ("ana", "slice-1", "")


def test_what_is_wanted_elsewhere_is_not_told_of_a_project() -> None:
    other = change(Action.CREATE, "", Ref("allocation", "nlp", "eval"))
    assert [one.ref for one in synced([row()], standing_of(make(other)), "vision")] == [row().ref]


def test_needs_are_what_the_plan_would_not_do() -> None:
    plan = standing_of(
        make(
            CASES["held"],
            change(Action.CHANGE, "protected", SOLO),
            change(Action.BLOCKED, "sku_unavailable", EVAL),
        )
    )
    found = [(one.kind, one.code, one.command) for _, one in needs_of(plan, {str(EVAL)})]
    assert found == [
        ("held", "held_for_approval", "gpuaas apply"),
        ("blocked", "protected", "gpuaas why allocation/vision/solo"),
    ]
    assert [one.code for _, one in needs_of(plan, ())][-1] == "sku_unavailable"


def test_problems_of_specs_are_one_need() -> None:
    error = Problem(code="yaml_syntax", message="not valid")
    plan: Plan = make(problems=(error, replace(error, message="neither")))
    warned = replace(plan, problems=(replace(error, severity=Severity.WARNING),))
    ((_, need),) = needs_of(standing_of(plan), ())
    assert (need.text, need.code) == ("2 problems in the specs", "yaml_syntax")
    assert list(needs_of(standing_of(warned), ())) == []


def test_a_plan_in_numbers() -> None:
    found = standing_of(make(*CASES.values(), change(Action.FROZEN))).pending
    assert (found.changes, found.held, found.blocked, found.waiting) == (2, 1, 2, 1)
    assert found.errors == 0
