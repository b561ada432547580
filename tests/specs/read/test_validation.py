"""Schemas as a gate that leaks nothing, and their findings as sentences with a place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler import shipped
from reconciler.kinds.registry import KINDS
from reconciler.specs.read.schema_errors import Flaw
from reconciler.specs.read.validation import Validator, check_document
from reconciler.specs.read.yaml_reader import read_documents

NAME = {"type": "string", "pattern": "[a-z]+", "maxLength": 8, "description": "A short name."}
SMALL = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"$ref": "#/$defs/name"},
        "count": {"type": "integer", "minimum": 1, "maximum": 8},
        "digits": {"type": "string", "pattern": r"\d+"},
        "on": {"type": "boolean"},
        "mode": {"enum": ["single_writer", "multi_reader"]},
        "until": {"anyOf": [{"const": "none"}, {"type": "string", "pattern": "[0-9]{4}"}]},
        "slots": {"type": "array", "uniqueItems": True, "minItems": 1},
        "labels": {"type": "object", "propertyNames": {"pattern": "[a-z]+"}},
        "keys": {
            "type": "array",
            "x-key": "id",
            "items": {"type": "object", "properties": {"id": {"type": "string"}}},
        },
        "pattern": {"type": "string"},
    },
    "x-hints": {"image": "an image belongs to an App"},
    "x-reserved": ["mig"],
    "$defs": {"name": NAME},
}
VALIDATOR = Validator(json.dumps(SMALL))


def flaws(**fields: Any) -> list[Flaw]:
    return list(VALIDATOR.flaws({"name": "a", **fields}))


def only(**fields: Any) -> Flaw:
    [flaw] = flaws(**fields)
    return flaw


def codes(**fields: Any) -> list[str]:
    return [flaw.problem.code for flaw in flaws(**fields)]


def test_a_valid_value_has_no_flaws() -> None:
    assert not flaws(count=3, digits="12", on=True, until="none", slots=[1, 2], pattern="x")


@pytest.mark.parametrize(
    ("field", "near"),
    [("coutn", "count"), ("mod", "mode"), ("Slots", "slots"), ("la_bels", "labels")],
)
def test_a_misspelt_field_is_refused_with_the_nearest(field: str, near: str) -> None:
    """F-PAR-03"""
    flaw = only(**{field: 1})
    assert flaw.problem.code == "field_unknown"
    assert flaw.problem.hint == f"did you mean `{near}`?"
    assert (flaw.path, flaw.key) == ((field,), True)


def test_a_field_that_people_try_is_explained() -> None:
    """F-PAR-03"""
    assert only(image=1).problem.hint == "an image belongs to an App"
    assert only(mig=1).problem.code == "field_reserved"
    assert "count" in only(zzzzzz=1).problem.hint


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("storage", "metadata: {name: a, project: p}\nspec: {class: c, sizeGiB: 1, acces_mode: x}"),
        ("allocation", "metadata: {name: a, project: p}\nspec: {sku: s, owner: o, gpu_cout: 4}"),
        (
            "node",
            "metadata: {name: a}\n"
            "spec: {address: local, family: f, isolation: directory,"
            " slots: [{name: s, numa: 0, cpus: '0', memoryGiB: 1,"
            " gpu: {uuid: u, pciAddress: '0000:0a:00.0', model: m, memoryMiB: 1, serail: x}}]}",
        ),
    ],
)
def test_the_real_schemas_are_closed_at_every_depth(kind: str, text: str) -> None:
    """F-PAR-03"""
    [located] = read_documents("a.yaml", text.encode()).documents
    problems = check_document(located, Validator(shipped.schemas()[kind]))
    unknown = [problem for problem in problems if problem.code == "field_unknown"]
    assert len(unknown) == 1 and unknown[0].hint


@pytest.mark.parametrize("name", ["a\n", "a\r", "\na", "a b", "A", "\u00e1", "a\u0301", "\u0430"])
def test_patterns_count_for_the_whole_text(name: str) -> None:
    """F-PAR-04, F-PAR-18: no trailing newline, no other alphabet; the last is Cyrillic."""
    [flaw] = VALIDATOR.flaws({"name": name})
    assert flaw.problem.code == "value_pattern"
    assert flaw.problem.hint == "A short name."


@pytest.mark.parametrize("digits", ["\u0661\u0662", "\uff11", "1\n"])
def test_digits_are_ascii(digits: str) -> None:
    """F-PAR-04"""
    assert codes(digits=digits) == ["value_pattern"]


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("bad", ["x\n", "../../etc", "..", "a/../b", "/", ".", "x" * 300, "Team-A"])
def test_no_name_walks_out_of_its_folder(kind: str, bad: str) -> None:
    """F-PAR-06, F-PAR-04, F-PAR-18: the name of every kind."""
    found = Validator(shipped.schemas()[kind]).flaws({"metadata": {"name": bad}})
    assert ("metadata", "name") in {flaw.path for flaw in found}


def test_text_where_a_number_is_needed_says_so() -> None:
    """F-PAR-16"""
    flaw = only(count="1e3")
    assert flaw.problem.code == "value_type"
    assert flaw.problem.message == '"1e3" is text, but a whole number is needed'
    assert "exponent" in flaw.problem.hint


def test_a_number_where_text_is_needed_is_to_be_quoted() -> None:
    [flaw] = VALIDATOR.flaws({"name": 2.6})
    assert flaw.problem.code == "value_type" and "quotes" in flaw.problem.hint


def test_booleans_are_no_counts() -> None:
    """F-PAR-17"""
    assert codes(count=True) == ["value_type"]
    assert codes(on=1) == ["value_type"]


def test_repeated_entries_are_found_by_value_and_by_key() -> None:
    """F-PAR-17"""
    assert only(slots=[1, 2, 1]).path == ("slots", 2)
    flaw = only(keys=[{"id": "x"}, {"id": "y"}, {"id": "x", "more": 1}])
    assert (flaw.problem.code, flaw.path) == ("value_repeated", ("keys", 2))


def test_other_findings_in_words() -> None:
    assert only(mode="single-writer").problem.hint == "did you mean `single_writer`?"
    assert "8 is the most" in only(count=9).problem.message
    assert codes(slots=[]) == ["value_range"]
    assert codes(until="never") == ["value_pattern"]
    assert codes(labels={"A": "x"}) == ["value_pattern"]
    [missing] = VALIDATOR.flaws({})
    assert (missing.problem.code, missing.path) == ("field_missing", ("name",))
    assert "A short name." not in missing.problem.message


def test_long_values_are_cut() -> None:
    [flaw] = VALIDATOR.flaws({"name": "x" * 5000})
    assert len(flaw.problem.message) < 120


def test_a_place_that_is_known_to_be_wrong_is_not_told_twice() -> None:
    parsed = read_documents("a.yaml", b"name: a\ncount: no\nmode: x\n")
    [located] = parsed.documents
    problems = check_document(located, VALIDATOR, parsed.problems)
    assert [problem.source.line for problem in problems if problem.source] == [3]
