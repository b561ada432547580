"""Rendering is strict, sandboxed, and leaves the text alone."""

from __future__ import annotations

import pytest

from reconciler.model.problem import ProblemError
from reconciler.planner.lifecycle.templates import Renderer


def render(text: str, **values: object) -> str:
    return Renderer({"t": text}).render("t", values)


def test_text_comes_out_as_it_is() -> None:
    """No escaping, and the last line keeps its end."""
    assert render("{{ a }}\n", a="<&'\">") == "<&'\">\n"


def test_a_value_is_never_a_template() -> None:
    """CRD-06: what a user wrote is data, whatever it looks like."""
    assert render("{{ a }}", a="{{ 7 * 7 }}") == "{{ 7 * 7 }}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ missing }}", "missing"),
        ("{{ a.missing }}", "missing"),
        ("{% if %}", "templates/t:1"),
        ("{{ a.__class__.__mro__ }}", "__class__"),
        ("{{ a.append(1) }}", "append"),
        ("{{ a + 1 }}", "concatenate"),
        ("{% include 'x' %}", "templates/t"),
    ],
)
def test_what_cannot_be_rendered_is_refused(text: str, said: str) -> None:
    """CRD-06: a value that is not there is no empty text."""
    with pytest.raises(ProblemError) as caught:
        render(text, a=[])
    (problem,) = caught.value.problems
    assert problem.code == "template_unsound"
    assert said in problem.message


def test_a_template_that_is_not_there_is_refused() -> None:
    with pytest.raises(ProblemError, match="template_unsound"):
        Renderer({}).render("nowhere", {})
