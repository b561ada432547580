"""A value against its JSON Schema: a fast gate, and plain words for what does not pass it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema_rs

from reconciler.model.problem import Problem, Source
from reconciler.specs.documents import Located
from reconciler.specs.wording import Flaw, Found, Path, repeated_entry, words_of

_OPAQUE = frozenset({"const", "enum", "default", "examples", "x-hints"})


class Validator:
    """One schema, made ready once. Patterns count for the whole text, never for a part of it.

    `x-key` of a list names what tells its entries apart: one field or several.
    """

    __slots__ = ("_check", "_keyed", "_schema")

    def __init__(self, text: str) -> None:
        self._schema: dict[str, Any] = _whole_patterns(json.loads(text))
        self._check = jsonschema_rs.validator_for(self._schema)
        self._keyed = tuple(_keyed_lists(self._schema, self._schema, ()))

    def flaws(self, value: Any) -> tuple[Flaw, ...]:
        """Everything wrong with `value`, one flaw for each place; empty if it is valid."""
        found: dict[tuple[Path, bool], Flaw] = {}
        if not self._check.is_valid(value):
            for error in self._check.iter_errors(value):
                for flaw in self._words(error):
                    found.setdefault((flaw.path, flaw.key), flaw)
        for path, fields in self._keyed:
            for flaw in _repeated(value, (), path, fields):
                found.setdefault((flaw.path, flaw.key), flaw)
        return tuple(found.values())

    def _words(self, error: jsonschema_rs.ValidationError) -> Iterable[Flaw]:
        keyword, detail = error.kind.name, error.kind.as_dict()
        if keyword in ("anyOf", "oneOf") and (branches := [b for b in detail["context"] if b]):
            likely = min(branches, key=_unlikely)
            return [flaw for inner in likely for flaw in self._words(inner)]
        at = error
        if keyword == "propertyNames":
            at = detail["error"]
        schema: Any = self._schema
        for part in list(at.schema_path)[:-1]:
            schema = schema[part]
        return words_of(
            Found(
                keyword=keyword,
                path=tuple(error.instance_path),
                value=at.instance,
                schema=schema,
                detail=detail,
                message=error.message,
            )
        )


def check_document(
    located: Located, validator: Validator, known: Iterable[Problem] = ()
) -> tuple[Problem, ...]:
    """What the schema finds, in its place; silent where the text itself is known to be wrong."""
    taken = {_spot(problem.source) for problem in known if problem.source}
    placed = (
        flaw.problem.at(located.source(flaw.path, key=flaw.key))
        for flaw in validator.flaws(located.document.value)
    )
    return tuple(problem for problem in placed if _spot(problem.source) not in taken)


def _spot(source: Source | None) -> tuple[int, int]:
    return (source.line, source.column) if source else (0, 0)


def _unlikely(branch: list[Any]) -> tuple[bool, int]:
    """An alternative that is one fixed word is seldom what somebody tried to write."""
    return branch[0].kind.name in ("const", "enum"), len(branch)


def _whole_patterns(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_whole_patterns(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: f"^(?:{item})$"
        if key == "pattern" and isinstance(item, str)
        else item
        if key in _OPAQUE
        else _whole_patterns(item)
        for key, item in schema.items()
    }


def _keyed_lists(root: Any, schema: Any, path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Paths to the lists with a key; `*` stands for each entry of a list on the way."""
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from _keyed_lists(root, target, path)
    if fields := schema.get("x-key"):
        yield path, (fields,) if isinstance(fields, str) else tuple(fields)
    if "items" in schema:
        yield from _keyed_lists(root, schema["items"], (*path, "*"))
    for name, inner in schema.get("properties", {}).items():
        yield from _keyed_lists(root, inner, (*path, name))


def _repeated(value: Any, at: Path, path: Path, fields: tuple[str, ...]) -> Iterator[Flaw]:
    for depth, part in enumerate(path):
        if part == "*" and isinstance(value, list):
            for index, item in enumerate(value):
                yield from _repeated(item, (*at, index), path[depth + 1 :], fields)
            return
        if not isinstance(value, dict) or part not in value:
            return
        at, value = (*at, part), value[part]
    seen: dict[tuple[Any, ...], int] = {}
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(entry, dict) or not all(field in entry for field in fields):
            continue
        key = tuple(str(entry[field]) for field in fields)
        if key in seen:
            yield repeated_entry((*at, index), fields, key, seen[key])
        seen.setdefault(key, index)
