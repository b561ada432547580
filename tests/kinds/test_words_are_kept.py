"""Every word that a schema takes is read by somebody, or refused until it is."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reconciler.kinds.registry import KINDS
from reconciler.model.problem import ProblemError
from reconciler.model.ref import KIND_WORDS
from reconciler.model.spec.features import FEATURES, Maturity
from reconciler.specs.read.validation import Validator
from reconciler.specs.settings import parse_settings
from tests.docs.render_kinds import fields
from tests.kinds import readers
from tests.kinds.sample import Fleet, examples

ROOT = Path(__file__).parents[2]
SCHEMAS: dict[str, Any] = {
    word: json.loads((ROOT / "schemas" / f"{word}.schema.json").read_text("utf-8"))
    for word in (*KINDS, "settings")
}
KEPT, SHOWN, ONE_CHOICE = readers.READERS, readers.SHOWN, readers.ONE_CHOICE


def stated(word: str) -> Iterator[tuple[str, Any]]:
    schema = SCHEMAS[word]
    top = schema if word == "settings" else schema["properties"]["spec"]
    for path, field, _ in fields(top, schema["$defs"], word):
        yield path, field


EVERY = {path: field for word in SCHEMAS for path, field in stated(word)}
GATED = {path: field["x-gate"] for path, field in EVERY.items() if "x-gate" in field}


def is_refused(path: str) -> bool:
    """It, or what it stands in."""
    word, *_ = path.split(".")
    whole = (*GATED, *readers.REFUSED_BESIDE)
    above = any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in whole)
    return above or word in readers.WHOLLY_REFUSED


def test_each_field_has_a_reader_or_is_refused() -> None:
    """F-REAL-23: once, and there is none for a field that no schema has."""
    assert len(readers.STATED) == len({field for field, _, _ in readers.STATED})
    kept, refused = set(KEPT) | SHOWN | ONE_CHOICE, {p for p in EVERY if is_refused(p)}
    assert kept | refused == set(EVERY), (kept | refused) ^ set(EVERY)
    assert not kept & refused
    assert not set(KEPT) & SHOWN


@cache
def read_by(module: str) -> frozenset[str]:
    """Attributes of what is typed, and keys of what was recorded."""
    tree = ast.parse((ROOT / "reconciler" / f"{module}.py").read_text("utf-8"))
    return frozenset(
        node.attr if isinstance(node, ast.Attribute) else snake(str(node.value))
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )


@pytest.mark.parametrize("path", sorted(set(KEPT) - ONE_CHOICE))
def test_each_reader_reads_it(path: str) -> None:
    """F-REAL-23: who drops the last reader of a word has to refuse it."""
    module, _, attribute = KEPT[path].partition(":")
    assert (attribute or snake(path.rpartition(".")[2])) in read_by(module), path


def snake(name: str) -> str:
    name = name.replace("GiB", "Gib").replace("MiB", "Mib")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def test_what_has_one_choice_has_one() -> None:
    for path in ONE_CHOICE:
        assert len(EVERY[path]["enum"]) == 1, path


@pytest.mark.parametrize("word", readers.WHOLLY_REFUSED)
def test_kinds_that_nobody_starts_are_refused(word: str) -> None:
    """F-REAL-23"""
    refs = [ref for ref in examples() if ref.kind == word]
    assert refs
    for ref in refs:
        assert Fleet().unsupported(str(ref)) == KINDS[word].NAME


VALUES: dict[str, Any] = {
    "project.costCenter": "4711",
    "project.budget": {"monthly": "1.00", "currency": "EUR"},
    "policy.approval": {"secondPersonFor": []},
    "policy.state": {"keepSnapshots": 3},
    "node.slots[].vm": {"iommuGroup": 1},
}


@pytest.mark.parametrize("path", sorted(GATED))
def test_a_gated_field_is_refused_where_it_stands(path: str) -> None:
    """F-REAL-23 MAT-01: also where it says what would be its default, or nothing."""
    word, *names = path.split(".")
    if word == "settings":
        content = json.dumps({"operators": ["olga"], names[0]: VALUES[path]}).encode()
        with pytest.raises(ProblemError) as refused:
            parse_settings(ROOT, content, json.dumps(SCHEMAS[word]))
        (problem,) = refused.value.problems
        assert problem.code == "not_yet_supported"
        assert (problem.source and problem.source.line) == 1
        return
    document = json.loads(
        json.dumps(next(one for ref, one in examples().items() if ref.kind == word))
    )
    assert not Validator(json.dumps(SCHEMAS[word])).flaws(document)
    at: Any = document["spec"]
    for name in names[:-1]:
        at = at[name.removesuffix("[]")][0] if name.endswith("[]") else at[name]
    at[names[-1]] = VALUES[path]
    (flaw,) = Validator(json.dumps(SCHEMAS[word])).flaws(document)
    assert (flaw.problem.code, flaw.path[-1]) == ("not_yet_supported", names[-1])
    assert flaw.problem.hint.startswith("take it out; ")


def test_gates_and_features_are_one() -> None:
    """MAT-01: each gate of a schema is told by `gpuaas features`, and each feature has a gate."""
    told = {gate for one in FEATURES.values() for gate in one.gates}
    for path, feature in GATED.items():
        word, _, rest = path.partition(".")
        kind = {word: name for name, word in KIND_WORDS.items()}.get(word)
        gate = f"{kind}.spec.{rest}" if kind else f"gpuaas.yaml {rest}"
        assert gate in FEATURES[feature].gates, gate
        assert gate in told
    for name, one in FEATURES.items():
        designed = one.maturity is Maturity.DESIGNED
        assert bool(one.gates) is designed is bool(one.code), name


def test_values_of_what_is_not_built_are_refused() -> None:
    """MAT-01: the gates that are values, or fields of another code."""
    fleet = Fleet()
    fleet["node/gpu01"]["isolation"] = "vm"
    assert fleet.unsupported("node/gpu01") == "isolation vm"
    grant = next(str(ref) for ref in examples() if ref.kind == "grant")
    fleet[grant].update(privilege="sudo", endSessions=False)
    assert fleet.unsupported(grant) == "privilege sudo, endSessions: false"
    sku = next(str(ref) for ref in examples() if ref.kind == "sku")
    fleet[sku].update(isolation=["account", "vm"], rdma=True, rootAccess=True)
    words = "isolation vm, rdma with isolation account, rootAccess"
    assert fleet.unsupported(sku) == words
    reserved = {"node": ("slots", 0, "mig"), "storage_class": ("block",)}
    for word, where in reserved.items():
        example = next(one for ref, one in examples().items() if ref.kind == word)
        document = json.loads(json.dumps(example))
        at: Any = document["spec"]
        for part in where[:-1]:
            at = at[part]
        at[where[-1]] = {}
        (flaw,) = Validator(json.dumps(SCHEMAS[word])).flaws(document)
        codes = {one.code for one in FEATURES.values()}
        assert flaw.problem.code in codes
