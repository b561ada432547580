"""A kind is complete: schema, module, registry line, example, page in the reference, and a test."""

from __future__ import annotations

import ast
import importlib
import inspect
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from reconciler.kinds.contract import Kind
from reconciler.kinds.registry import KINDS
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.ref import KIND_WORDS

ROOT = Path(__file__).parents[1]
MEMBERS = sorted(
    {*Kind.__annotations__, *(name for name in vars(Kind) if not name.startswith("_"))}
)


def place_of(word: str) -> str:
    """A kind is a file, or the first of a folder of its name."""
    folder = ROOT / "reconciler" / "kinds" / word
    return (
        f"reconciler/kinds/{word}/{word}.py" if folder.is_dir() else f"reconciler/kinds/{word}.py"
    )


TESTS = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "tests/kinds").rglob("*.py")))


@pytest.mark.parametrize("word", sorted(KIND_WORDS.values()))
def test_nothing_of_a_kind_is_missing(word: str) -> None:
    missing = [
        what
        for what, is_there in {
            "its line in reconciler/kinds/registry.py": word in KINDS,
            f"{place_of(word)}": file(place_of(word)),
            f"schemas/{word}.schema.json": file(f"schemas/{word}.schema.json"),
            f"docs/reference/examples/{word}.yaml": file(f"docs/reference/examples/{word}.yaml"),
            f"docs/reference/kinds/{word}.md": file(f"docs/reference/kinds/{word}.md"),
            f"tests/security/everything/{word}.yaml": file(
                f"tests/security/everything/{word}.yaml"
            ),
            f"a test below tests/kinds that names {word}/…": f'"{word}/' in TESTS,
        }.items()
        if not is_there
    ]
    assert not missing, f"{word} has no " + ", no ".join(missing)


def file(path: str) -> bool:
    return (ROOT / path).is_file()


def test_the_registry_holds_kinds_and_nothing_else() -> None:
    assert {word: kind.NAME for word, kind in KINDS.items()} == {
        word: name for name, word in KIND_WORDS.items()
    }


@pytest.mark.parametrize("word", sorted(KINDS))
def test_every_member_of_the_contract_is_there(word: str) -> None:
    """All required, with the contract's own parameters, so that generic code can call any kind."""
    for member in MEMBERS:
        found = getattr(KINDS[word], member, None)
        assert found is not None, f"{word}.{member}"
        if inspect.isfunction(found):
            wanted = list(inspect.signature(getattr(Kind, member)).parameters)[1:]
            assert list(inspect.signature(found).parameters) == wanted, f"{word}.{member}"


@pytest.mark.parametrize("word", sorted(KINDS))
def test_kinds_do_not_know_each_other(word: str) -> None:
    """They meet in Desired and World, and read there what specs of another kind say: no more."""
    tree = ast.parse((ROOT / place_of(word)).read_text("utf-8"))
    others = {f"reconciler.kinds.{other}" for other in set(KINDS) - {word}}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module == "reconciler.kinds":
            assert not {alias.name for alias in node.names} & set(KINDS), node.lineno
        if any(f"{node.module}.".startswith(f"{other}.") for other in others):
            module = importlib.import_module(node.module)
            taken = (getattr(module, alias.name) for alias in node.names)
            told = (isinstance(one, TypedSpecs) or is_dataclass(one) for one in taken)
            assert all(told), node.lineno
