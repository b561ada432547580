"""What a plain scalar is: the table of mechanics, and what is refused instead of guessed."""

from __future__ import annotations

import pytest

from reconciler.model.problem import Problem
from reconciler.specs.read.scalars import plain


def code(text: str) -> str:
    value = plain(text)
    assert isinstance(value, Problem), f"{text!r} was taken for {value!r}"
    return value.code


@pytest.mark.parametrize(
    "text",
    [
        "1.2.3",
        "10.0.0.1",
        "0-15",
        "0000:0a:00.0",
        "a:b",
        "true-ish",
        "nope",
        "offline",
        "1e3",
        "1.0e5",
        "12abc",
        "-x",
        "5f3a",
        "v1",
        "52:54:00:44:99:56",
        "2026-1",
        "..5",
        "1-2-3",
    ],
)
def test_everything_else_is_text(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-7", -7),
        ("999999999999999", 999999999999999),
        ("0.5", 0.5),
        ("-1.25", -1.25),
    ],
)
def test_the_few_values(text: str, value: object) -> None:
    found = plain(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text", ["no", "No", "NO", "off", "on", "On", "yes", "Y", "y", "n", "True", "FALSE"]
)
def test_bare_words_are_no_booleans(text: str) -> None:
    """F-PAR-07: refused with the hint to quote."""
    problem = plain(text)
    assert isinstance(problem, Problem)
    assert (problem.code, problem.hint) == ("yaml_ambiguous", f'quote it: "{text}"')


@pytest.mark.parametrize("text", ["~", "null", "NULL", ""])
def test_no_value_is_refused(text: str) -> None:
    """F-PAR-07"""
    assert code(text) == "yaml_null"


@pytest.mark.parametrize("text", ["8888:22", "22:30", "52:54:00:44:49:56", "190:20:30.15"])
def test_base_60_is_refused(text: str) -> None:
    """F-PAR-10"""
    assert code(text) == "yaml_ambiguous"


@pytest.mark.parametrize("text", ["007", "010", "089", "0644", "-012", "1_000", "0x1F", "0b11"])
def test_leading_zeros_and_other_notations_are_refused(text: str) -> None:
    """F-PAR-11"""
    assert code(text) == "yaml_ambiguous"


@pytest.mark.parametrize("text", ["00012345", "4225332178759948", "1000000000000000"])
def test_long_digits_never_become_numbers(text: str) -> None:
    """F-PAR-12"""
    assert code(text) == "yaml_ambiguous"


def test_digits_with_one_e_stay_text() -> None:
    """F-PAR-12, F-PAR-16: kept as the exact text, for the schema to judge."""
    assert plain("302628e1") == "302628e1"
    assert plain("1e3") == "1e3"
    assert plain("1.0e5") == "1.0e5"


@pytest.mark.parametrize("text", ["1.0e+5", ".5", "1.", "+1", "+1.5", ".inf", "-.INF", ".NaN", "="])
def test_what_readers_disagree_on_is_refused(text: str) -> None:
    """F-PAR-16"""
    assert code(text) == "yaml_ambiguous"


@pytest.mark.parametrize(
    "text", ["2026-11-20", "2026-11-20T09:12:00Z", "2026-11-20 09:12:00 +01:00"]
)
def test_times_are_refused(text: str) -> None:
    assert code(text) == "yaml_ambiguous"


def test_a_whole_decimal_is_the_whole_number() -> None:
    """F-PAR-17: 2.0 is stored as 2, so that no later comparison sees a difference."""
    assert repr(plain("2.0")) == "2"
    assert repr(plain("-0")) == "0"
    assert plain("true") is True
