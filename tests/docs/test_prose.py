"""The prose of pages, help and docstrings: whole first sentences, and people are "they"."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import nodes
from tests.test_docs import PAGES, ROOT

SOURCES = sorted(
    path for room in ("reconciler", "playbooks", "tests") for path in (ROOT / room).rglob("*.py")
)
OURS = [path for path in SOURCES if not path.is_relative_to(ROOT / "tests")]

SENTENCE = re.compile(r"[.!?:][\"')`]*$")
ONE_PERSON = re.compile(r"\b(he|his|him|himself)\b", re.IGNORECASE)


def docstrings(path: Path) -> Iterator[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in nodes(path):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield text


def prose(path: Path) -> Iterator[str]:
    """Every comment, and every text that stands for itself."""
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def test_no_docstring_breaks_its_first_sentence_over_an_empty_line() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {first}"
        for path in SOURCES
        for first, more, _ in (text.partition("\n\n") for text in docstrings(path))
        if more and not SENTENCE.search(first)
    ]
    assert not broken, "end the sentence, or go on without an empty line"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_people_are_they_on_every_page(page: Path) -> None:
    found = [line for line in page.read_text("utf-8").splitlines() if ONE_PERSON.search(line)]
    assert not found


def test_people_are_they_in_docstrings_help_and_comments() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in OURS
        for text in prose(path)
        if ONE_PERSON.search(text)
    ]
    assert not found
