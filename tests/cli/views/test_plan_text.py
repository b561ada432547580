"""The plan on the screen: order, wording, and that the same stands in every form."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from reconciler import __version__
from reconciler.cli.views import plan_json, plan_markdown, plan_text
from reconciler.model.plan.plan import Plan, Risk


def shown(watch, plan: Plan, **how: object) -> str:
    watched = watch(**how)
    watched.screen.show(plan_text.lines(plan))
    return watched.out.shown


def test_plan_as_text(watch, golden, full_plan: Plan) -> None:
    """LCH-07: what is made, its price, and what is lost and kept, in the order of decisions."""
    golden("plan.txt", shown(watch, full_plan))


def test_plan_as_markdown(golden, full_plan: Plan) -> None:
    golden("plan.md", plan_markdown.text(full_plan))


def test_plan_with_nothing_to_do(watch, golden, quiet_plan: Plan) -> None:
    golden("plan_quiet.txt", shown(watch, quiet_plan))


def test_plan_after_an_upgrade(watch, golden, upgraded_plan: Plan) -> None:
    """Rule 21: a line for all allocations and one for all hosts, each with what it means."""
    golden("plan_upgraded.txt", shown(watch, upgraded_plan).replace(__version__, "X.Y.Z"))
    golden("plan_upgraded.md", plan_markdown.text(upgraded_plan).replace(__version__, "X.Y.Z"))


def test_plan_after_an_upgrade_in_full(watch, upgraded_plan: Plan) -> None:
    """Rule 21: nothing is only told as a number: each line can be seen, and stands in the JSON."""
    watched = watch()
    watched.screen.show(plan_text.lines(upgraded_plan, expand=True))
    for change in upgraded_plan.changes:
        assert str(change.ref) in watched.out.shown
    assert watched.out.shown.count("unchanged, re-rendered by gpuaas") == 49
    told = plan_json.view(upgraded_plan)
    causes = [change.get("cause", "") for change in told["changes"]]
    assert (causes.count("rerendered"), causes.count("")) == (49, 1)
    assert told["writtenBy"] == "0.0.9"


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("0.0.9", "state was written by 0.0.9"),
        ("", "state was written by an earlier version"),
        (__version__, "its templates are others than then"),
    ],
)
def test_what_wrote_the_state(watch, upgraded_plan: Plan, before: str, words: str) -> None:
    text = " ".join(shown(watch, replace(upgraded_plan, written_by=before)).split())
    assert f"re-rendered by gpuaas {__version__} ({words})" in text


def test_order_of_sections(watch, full_plan: Plan) -> None:
    titles = re.findall(r"^\S+ ([A-Z]+) \(\d", shown(watch, full_plan), re.MULTILINE)
    assert titles == [
        *("BLOCKED", "HELD", "RELEASE", "RESTART", "CREATE", "CHANGE", "DRIFT", "FROZEN"),
        "UNKNOWN",
    ]


@pytest.mark.parametrize(
    ("risk", "present", "absent"),
    [
        (Risk.DESTROYS, ["BLOCKED", "HELD", "RELEASE"], ["RESTART", "CREATE", "DRIFT"]),
        (Risk.INTERRUPTS, ["RELEASE", "RESTART"], ["CREATE"]),
        (Risk.SAFE, ["RELEASE", "RESTART", "CREATE", "DRIFT"], ["lower risk"]),
    ],
)
def test_risk_filters_what_is_shown(watch, full_plan: Plan, risk, present, absent) -> None:
    watched = watch()
    watched.screen.show(plan_text.lines(full_plan, risk))
    assert all(word in watched.out.shown for word in present)
    assert not any(word in watched.out.shown for word in absent)
    if risk is not Risk.SAFE:
        assert "of a lower risk" in watched.out.shown


def test_narrow_terminal_wraps_at_words(watch, full_plan: Plan) -> None:
    """F-CLI-05: width 20 is ugly and whole, never an error."""
    narrow = re.sub(r"\x1b\[[\d;]*m", "", shown(watch, full_plan, terminal=True, columns=20))
    assert "".join(narrow.split()) == "".join(shown(watch, full_plan).split())
    breakable = [one for one in narrow.splitlines() if " " in one.strip()]
    assert max(len(one) for one in breakable) <= 20


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_poor_encodings_still_show_everything(watch, full_plan: Plan, encoding: str) -> None:
    """F-CLI-05: symbols have ASCII forms, foreign letters become escapes."""
    text = shown(watch, full_plan, encoding=encoding)
    assert "!= DRIFT (1)" in text
    assert ("Ana \\xc5" in text) or ("Ana Å" in text and encoding == "latin-1")


def test_without_color_the_words_stay(watch, full_plan: Plan) -> None:
    watched = watch(terminal=True, columns=200)
    watched.screen.show(plan_text.lines(full_plan))
    assert "\x1b[1;31m" in watched.out.shown
    plain = watch(terminal=True, columns=200)
    plain.screen.color = False
    plain.screen.show(plan_text.lines(full_plan))
    assert "\x1b" not in plain.out.shown
    assert plain.out.shown == re.sub(r"\x1b\[[\d;]*m", "", watched.out.shown)


def test_no_secret_in_any_form(watch, full_plan: Plan) -> None:
    """F-PLN-06: a field called like a secret shows that it changed, never how."""
    forms = [
        shown(watch, full_plan),
        plan_markdown.text(full_plan),
        json.dumps(plan_json.view(full_plan)),
    ]
    for form in forms:
        assert "hf_aaaa" not in form
        assert "hf_bbbb" not in form
        assert "HF_TOKEN" in form
        assert "(hidden)" in form
        assert "secretThing" not in form
        assert "SENT-TO-HOST" not in form


def test_markdown_cannot_be_left(full_plan: Plan) -> None:
    """F-CLI-03: code spans hold whatever a spec says."""
    hostile = "``` @everyone <b> ` | \n# title"
    span = plan_markdown.code(hostile)
    fence = re.match(r"`+", span)
    assert fence is not None
    assert fence[0] not in span[len(fence[0]) : -len(fence[0])]
    assert "\n" not in span
