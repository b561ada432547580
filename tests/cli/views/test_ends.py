"""What comes to an end by itself, on the screen: when, how long that is, and what can be done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.cli.views import ends, plan_markdown, plan_text
from reconciler.cli.views.sections import sections
from reconciler.model.plan.plan import Action, Cause, Change, End, EndState, Plan, Risk
from reconciler.model.ref import Ref
from reconciler.model.spec.revision import Revision

REF = Ref("allocation", "nlp", "bert")
NOW = "2026-12-01T12:00:00Z"


@pytest.mark.parametrize(
    ("state", "at", "text"),
    [
        (
            EndState.EXPIRES,
            "2026-12-02T08:00:00Z",
            "expires 2026-12-02T08:00:00Z (in 20 h, owner bo)   gpuaas extend allocation/nlp/bert",
        ),
        (
            EndState.GRACE,
            "2026-12-01T12:30:00Z",
            "its time is over: released 2026-12-01T12:30:00Z (in 30 min)"
            "   gpuaas extend allocation/nlp/bert",
        ),
        (
            EndState.QUARANTINED,
            "2026-12-01T12:00:00Z",
            "quarantined: wiped from 2026-12-01T12:00:00Z on (now);"
            " until then a git revert restores it",
        ),
    ],
)
def test_every_end_says_when_and_what_can_be_done(state: EndState, at: str, text: str) -> None:
    assert ends.told(End(ref=REF, state=state, at=at, owner="bo"), NOW) == text


def plan(*changes: Change) -> Plan:
    one = End(ref=REF, state=EndState.EXPIRES, at="2026-12-02T08:00:00Z", owner="bo")
    return Plan(
        revision=Revision(),
        desired_digest="",
        state_id="s",
        serial=1,
        made_at=NOW,
        changes=changes,
        ends=(one,) * 25,
    )


def test_a_plan_tells_them_in_every_form() -> None:
    shown = "\n".join(str(line) for line in plan_text.lines(plan()))
    assert "ENDS (25)" in shown and "and 5 more" in shown
    told = plan_markdown.text(plan())
    assert "ENDS (25)" in told and told.count("expires 2026-12-02T08:00:00Z") == 25


def test_what_was_consented_to_stands_apart_and_does_not_ask() -> None:
    """One that asks and one that was agreed to before are never in one list."""
    asks = Change(ref=REF, action=Action.RELEASE, risk=Risk.DESTROYS)
    begun = replace(asks, cause=Cause.CONSENTED)
    over = replace(asks, cause=Cause.EXPIRED)
    notes = [(one.note, len(one.changes)) for one in sections(plan(asks, begun, over))]
    assert notes == [("destroys, asks", 1), ("destroys, as was consented to before", 2)]
