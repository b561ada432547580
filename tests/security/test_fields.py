"""Every text field of every kind takes every hostile text as it is, or refuses it in its place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler import shipped
from reconciler.cli.text import render
from reconciler.cli.views import problems as problems_view
from reconciler.model.codec import encode
from reconciler.model.codes import CODES
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.ref import KIND_WORDS
from reconciler.specs.read.check_file import API_VERSION, Judge
from reconciler.specs.read.text import TEXT_LIMIT
from reconciler.specs.settings import parse_settings
from tests.security.corpus import BREAKS, HOSTILE
from tests.security.fields import Field, Sample, Written, at, samples, text_fields

FILE = "specs/hostile.yaml"
SCHEMAS = shipped.schemas()
JUDGE = Judge(SCHEMAS)
TIDIED = frozenset({"user.spec.keys[].publicKey"})
"""Where space around a text means nothing."""
KIND = ("kind",)
ENVELOPE = {"apiVersion": API_VERSION, "kind": "", "metadata": {"name": "x"}, "spec": {}}
AFFIXED = (
    *BREAKS,
    "\0",
    "\t",
    "\x1b[2J",
    "\x9b",
    "\u202e",
    "\ufeff",
    " ",
    ";",
    "$(x)",
    "/../..",
    "-",
    "%",
)
"""What is put behind and before a sound text as well, so that no pattern stops looking early."""


def test_every_text_field_of_every_schema_is_reached() -> None:
    """Not vacuous: what the schemas know stands in a document, and that document is sound."""
    kinds = {sample.schema for sample in samples()}
    assert kinds == {*KIND_WORDS.values(), "settings"}
    wanted = {name for kind in kinds for name in text_fields(kind)}
    assert {field.name for sample in samples() for field in sample.fields} == wanted
    for sample in samples():
        hold(sample, {field: field.sample for field in sample.fields})


@pytest.mark.parametrize("sample", [one for one in samples() if one.fields], ids=str)
def test_a_hostile_text_is_refused_in_its_place_or_taken_as_it_is(
    sample: Sample, record_property: Callable[[str, object], None]
) -> None:
    fields = [field for field in sample.fields if field.path != KIND]
    record_property("hostile", len(fields) * (len(HOSTILE) + 2 * len(AFFIXED)))
    for text in HOSTILE:
        hold(sample, dict.fromkeys(fields, text))
    for text in AFFIXED:
        hold(sample, {field: field.sample + text for field in fields})
        hold(sample, {field: text + field.sample for field in fields})


@pytest.mark.parametrize("sample", [one for one in samples() if one.fields], ids=str)
def test_no_hostile_text_is_a_kind(sample: Sample) -> None:
    for field in (field for field in sample.fields if field.path == KIND):
        envelope = Sample(schema=sample.schema, value=ENVELOPE, fields=(field,))
        for text in (*HOSTILE, *(field.sample + text for text in AFFIXED)):
            written = envelope.written({field: text})
            found = judge(envelope, written)
            assert isinstance(found, list)
            assert refusals(found, written, [field]) == {field}, text


def hold(sample: Sample, texts: Mapping[Field, str]) -> None:
    """All of these in one document; what is refused is taken out, until nothing is."""
    taken = dict(texts)
    while isinstance(found := judge(sample, written := sample.written(taken)), list):
        refused = refusals(found, written, taken)
        taken = {field: text for field, text in taken.items() if field not in refused}
    for field, text in taken.items():
        path = written.paths[field.path, field.is_key]
        stands = path[-1] if field.is_key and at(found, path) else at(found, path)
        assert stands == (text.strip(" ") if field.name in TIDIED else text), (field, text)


def refusals(problems: Iterable[Problem], written: Written, among: Collection[Field]) -> set[Field]:
    """Which of the fields are refused, each in its place; there is no problem but these."""
    places = {}
    for problem in problems:
        assert_sound(problem)
        assert problem.source is not None
        places[problem.source.line, problem.source.column] = problem.source.path
    refused = set()
    for field in among:
        here = (field.path, field.is_key)
        if written.places[here] in places:
            path = places.pop(written.places[here])
            assert path == tuple(map(cut, written.paths[here])), field
            refused.add(field)
    assert not places
    return refused


def assert_sound(problem: Problem) -> None:
    """It has a code, a place and a next step, and steers no terminal."""
    assert problem.code in CODES
    source = problem.source
    assert problem.hint and source is not None and source.line and source.column, problem
    for line in problems_view.one(problem):
        shown = render(line)
        assert shown.isprintable() and len(shown) < 2 * TEXT_LIMIT + 100, problem


def judge(sample: Sample, written: Written) -> Mapping[str, Any] | list[Problem]:
    """What a document says, in normal form with what it is called; or all that is wrong with it."""
    if sample.schema == "settings":
        try:
            settings = parse_settings(Path("/fleet"), written.content, SCHEMAS["settings"])
        except ProblemError as error:
            return list(error.problems)
        return {**encode(settings)}
    found = JUDGE.judge(FILE, written.content)
    if found.problems:
        return list(found.problems)
    (one,) = found.resources
    named = {"name": one.ref.name, "project": one.ref.project, "formerName": one.former_name}
    kind = next(kind for kind, word in KIND_WORDS.items() if word == one.ref.kind)
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {**named, "labels": one.normal["labels"]},
        "spec": one.normal["spec"],
    }


def cut(part: str | int) -> str | int:
    """As the path of a problem has it."""
    long = isinstance(part, str) and len(part) > TEXT_LIMIT
    return f"{str(part)[:TEXT_LIMIT]}…" if long else part
