"""Exit codes: their precedence, and what a plan's code says."""

from __future__ import annotations

from itertools import permutations

import pytest

from reconciler.cli.exit_codes import MEANING, PRECEDENCE, Exit, of_plan, of_problems, worst
from reconciler.model.plan.plan import Action, Change, Plan
from reconciler.model.problem import Problem, Severity
from reconciler.model.ref import Ref
from reconciler.model.spec.revision import Revision

DOCUMENTED = [1, 3, 5, 2, 4, 0]
ERROR = Problem(code="yaml_syntax", message="m")
WARNING = Problem(code="file_empty", message="m", severity=Severity.WARNING)


def test_precedence_is_the_documented_one() -> None:
    """F-PLN-09: an error wins over everything a plan may say."""
    assert [int(code) for code in PRECEDENCE if code < 64] == DOCUMENTED
    for pair in permutations(DOCUMENTED, 2):
        assert worst(Exit(code) for code in pair) == min(pair, key=DOCUMENTED.index)
    assert worst([]) is Exit.DONE


def test_every_code_has_a_meaning_and_a_rank() -> None:
    assert set(MEANING) == set(PRECEDENCE) == set(Exit)


def change(action: Action, code: str = "") -> Change:
    problem = Problem(code=code, message="m") if code else None
    return Change(
        ref=Ref("allocation", "p", f"{action.value}{code}"), action=action, problem=problem
    )


NOTHING: tuple[Change, ...] = ()
CREATE = change(Action.CREATE)
REPAIR = change(Action.REPAIR)
BLOCKED = change(Action.BLOCKED, "sku_unavailable")
HELD = change(Action.RELEASE, "held_for_approval")
FROZEN = change(Action.FROZEN)


@pytest.mark.parametrize(
    ("changes", "problems", "plain", "detailed"),
    [
        (NOTHING, (), 0, 0),
        ((CREATE,), (), 0, 2),
        ((REPAIR,), (), 0, 4),
        ((REPAIR, CREATE), (), 0, 2),
        ((HELD, CREATE), (), 5, 5),
        ((BLOCKED, HELD, CREATE), (), 3, 3),
        ((BLOCKED, CREATE), (ERROR,), 1, 1),
        ((CREATE, FROZEN), (), 1, 1),
        ((CREATE,), (WARNING,), 0, 2),
    ],
)
def test_code_of_a_plan(changes, problems, plain: int, detailed: int) -> None:
    """F-PLN-09: nothing, changes, drift, held, blocked, errors, and mixtures of them."""
    plan = _plan(changes, problems)
    assert of_plan(plan, detailed=False) == plain
    assert of_plan(plan, detailed=True) == detailed


def _plan(changes, problems) -> Plan:
    return Plan(
        revision=Revision(),
        desired_digest="",
        state_id="s",
        serial=1,
        made_at="",
        changes=changes,
        problems=problems,
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("usage", 64),
        ("interrupted", 130),
        ("nobody_to_ask", 5),
        ("declined", 5),
        ("plan_blocked", 3),
        ("state_locked", 1),
        ("plan_stale", 1),
    ],
)
def test_code_of_a_problem(code: str, expected: int) -> None:
    """F-PLN-09"""
    assert of_problems([WARNING, Problem(code=code, message="m")]) == expected
    assert of_problems([WARNING]) is Exit.DONE
