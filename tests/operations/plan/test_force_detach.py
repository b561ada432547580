"""A forced detach is of an allocation from which something is detached, and of nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.plan.force_detach import Forced
from reconciler.model.plan.plan import Action, Change, Plan
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Revision
from reconciler.operations.plan import force_detach

BLOCKED = Change(
    ref=Ref("storage", "vision", "train"),
    action=Action.BLOCKED,
    problem=Problem(code="storage_in_use", message="x"),
)


def plan(*changes: Change) -> Plan:
    return Plan(
        revision=Revision(),
        desired_digest="sha256:0",
        state_id="s",
        serial=1,
        made_at="2026-01-01T12:00:00Z",
        changes=changes,
        forced=Forced(refs=("vision/train",), why="full disk"),
    )


def test_a_namesake_of_another_kind_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-REAL-23: else a word that ends nothing would be taken for done."""
    monkeypatch.setattr(force_detach, "operator", lambda *_: "olga")
    monkeypatch.setattr(force_detach, "read_desired", lambda fleet: None)
    fleet: Any = None
    with pytest.raises(ProblemError) as refused:
        force_detach.insist_on_forced(fleet, plan(BLOCKED))
    assert [problem.code for problem in refused.value.problems] == ["force_unmatched"]
    own = replace(BLOCKED, ref=Ref("allocation", "vision", "train"))
    force_detach.insist_on_forced(fleet, plan(own))
