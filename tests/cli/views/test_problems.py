"""A problem on the screen: place, line, caret, next step."""

from __future__ import annotations

from dataclasses import replace

from reconciler.cli.text import render
from reconciler.cli.views import problems as view
from reconciler.cli.views.documents import without_secret
from reconciler.model.problem import Problem, Severity, Source

PROBLEM = Problem(
    code="field_unknown",
    message="no such field: skuu",
    hint="did you mean sku?",
    source=Source(
        file="specs/a.yaml", path=("spec", "skuu"), line=12, column=3, text="  skuu: h100"
    ),
)


def text(*problems: Problem) -> str:
    return "".join(render(one) + "\n" for one in view.lines(problems))


def test_a_problem_has_a_place_a_caret_and_a_next_step() -> None:
    """F-CLI-04: file and line, what was expected, one next step."""
    assert text(PROBLEM) == (
        "specs/a.yaml:12:3: error: no such field: skuu [field_unknown]\n"
        "  12 |   skuu: h100\n"
        "     |   ^\n"
        "  at: spec.skuu\n"
        "  hint: did you mean sku?\n"
    )


def test_the_caret_counts_what_is_shown() -> None:
    """F-CLI-05: tabs and wide letters before the place move the caret with them."""
    source = Source(file="a", line=1, column=4, text="\t李 x")
    shown = text(Problem(code="yaml_syntax", message="m", source=source)).splitlines()
    assert shown[1].index("x") + 1 == shown[2].index("^")  # the wide letter takes two columns


def test_a_warning_says_so_and_a_file_alone_is_a_place() -> None:
    """F-CLI-04: an empty file is named and is a warning only."""
    source = Source(file="specs/empty.yaml")
    problem = Problem(code="file_empty", message="m", source=source, severity=Severity.WARNING)
    assert text(problem) == "specs/empty.yaml: warning: m [file_empty]\n"


def test_hostile_file_names_and_lines_stay_on_their_line() -> None:
    """F-CLI-03"""
    source = Source(file="a\n\x1b[2J.yaml", line=1, column=1, text="x\x1b]0;pwn\x07")
    shown = text(Problem(code="yaml_syntax", message="m\nroot: ok", source=source))
    assert "\x1b" not in shown
    assert shown.count("\n") == 3


def test_the_line_of_a_secret_is_not_shown() -> None:
    """F-PLN-06: neither as text nor in the JSON form."""
    assert PROBLEM.source is not None
    leaky = replace(PROBLEM, source=replace(PROBLEM.source, text="  HF_TOKEN: hf_abcdefghijkl"))
    hidden = without_secret(leaky)
    assert "hf_abc" not in text(leaky)
    assert hidden.source is not None
    assert "hf_abc" not in hidden.source.text


def test_count() -> None:
    warning = replace(PROBLEM, severity=Severity.WARNING)
    assert view.counted([PROBLEM, PROBLEM, warning]) == "2 errors, 1 warning"
    assert view.counted([]) == ""
