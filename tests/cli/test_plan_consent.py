"""Consent: only a person at a terminal can give it, and destruction wants the whole word."""

from __future__ import annotations

import io

import pytest

from reconciler.cli.command import Session
from reconciler.cli.plan_consent import PlanConsent
from reconciler.model.plan.plan import Plan, Risk
from reconciler.model.problem import ProblemError


class Keyboard(io.StringIO):
    def __init__(self, typed: str, *, terminal: bool) -> None:
        super().__init__(typed)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def ask(watch, monkeypatch: pytest.MonkeyPatch):
    def answer(plan: Plan, typed: str | None, *, terminal: bool, form: str = "text", **more):
        watched = watch(terminal=terminal)
        keyboard = None if typed is None else Keyboard(typed, terminal=terminal)
        monkeypatch.setattr("sys.stdin", keyboard)
        session = Session(screen=watched.screen, folder=None, format=form)
        return PlanConsent(session, more.get("approve"))(plan), watched

    return answer


@pytest.mark.parametrize("typed", ["", "yes\n" * 50, None])
def test_without_a_terminal_nobody_is_asked(ask, full_plan: Plan, typed: str | None) -> None:
    """F-CLI-02: /dev/null, a closed standard input and `yes |` are refused, with the flag named."""
    with pytest.raises(ProblemError) as raised:
        ask(full_plan, typed, terminal=False)
    (problem,) = raised.value.problems
    assert problem.code == "nobody_to_ask"
    assert "--auto-approve" in problem.hint


@pytest.mark.parametrize(
    ("typed", "agreed"),
    [("yes\n", True), ("y\n", False), ("YES\n", False), ("\n", False), ("", False)],
)
def test_destruction_wants_the_whole_word(ask, full_plan: Plan, typed: str, agreed: bool) -> None:
    """F-CLI-02"""
    answer, watched = ask(full_plan, typed, terminal=True)
    assert answer is agreed
    assert "This destroys 1" in watched.err.shown


@pytest.mark.parametrize(
    ("typed", "agreed"), [("yes\n", True), ("y\n", True), ("no\n", False), ("", False)]
)
def test_a_harmless_plan_is_asked_for_simply(ask, full_plan, typed: str, agreed: bool) -> None:
    from dataclasses import replace

    safe = replace(full_plan, changes=tuple(c for c in full_plan.changes if c.risk is Risk.SAFE))
    answer, _ = ask(safe, typed, terminal=True)
    assert answer is agreed


def test_the_plan_is_shown_before_the_question(ask, full_plan: Plan) -> None:
    _, watched = ask(full_plan, "yes\n", terminal=True)
    assert "RELEASE" in watched.out.shown


def test_json_keeps_standard_output_clean(ask, full_plan: Plan) -> None:
    """F-CLI-01: the plan and the question go to standard error."""
    answer, watched = ask(full_plan, "yes\n", terminal=True, form="json")
    assert answer
    assert watched.out.shown == ""
    assert "RELEASE" in watched.err.shown


def test_consent_given_before_is_not_asked_for(ask, full_plan: Plan) -> None:
    answer, watched = ask(full_plan, None, terminal=False, approve=Risk.SAFE)
    assert answer
    assert "CREATE" in watched.out.shown
