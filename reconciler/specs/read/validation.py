"""A value against its JSON Schema: a fast gate, and plain words for what does not pass it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from reconciler.model.problem import Problem, Source
from reconciler.specs.read.schema_errors import (
    FailedKeyword,
    Flaw,
    Path,
    gated_field,
    repeated_entry,
    repetitions,
    words_of,
)
from reconciler.specs.read.syntax import PROBLEM_LIMIT
from reconciler.specs.read.yaml_reader import Located

if TYPE_CHECKING:
    from jsonschema import ValidationError

_OPAQUE = frozenset({"const", "enum", "default", "examples", "x-hints"})


class Validator:
    """One schema, made ready once. Patterns count for the whole text, never for a part of it.

    `x-key` of a list names what tells its entries apart: one field or several. `x-gate` of a field
    names the feature that it belongs to, which is not built yet.
    """

    __slots__ = ("_check", "_gated", "_keyed", "_schema", "_strict")

    def __init__(self, text: str) -> None:
        self._schema: dict[str, object] = _whole_patterns(json.loads(text))
        self._check = jsonschema_rs.validator_for(self._schema)
        self._keyed = tuple(_marked(self._schema, self._schema, (), "x-key"))
        self._gated = tuple(_marked(self._schema, self._schema, (), "x-gate"))
        self._strict: Any = None

    def flaws(self, value: object) -> tuple[Flaw, ...]:
        """What is wrong with `value`, one flaw for each place, as far as anybody would read it.

        Empty if it is valid.
        """
        wrong = () if self._check.is_valid(value) else self._worded(value)
        twice = (
            _repeated(entries, at, _several(fields))
            for path, fields in self._keyed
            for at, entries in _reached(value, (), path)
        )
        early = (
            gated_field(at, feature)
            for path, feature in self._gated
            for at, _ in _reached(value, (), path)
        )
        found: dict[tuple[Path, bool], Flaw] = {}
        for flaw in islice(chain(early, wrong, *twice), PROBLEM_LIMIT + 1):
            found.setdefault((flaw.path, flaw.key), flaw)
        return tuple(found.values())

    def _worded(self, value: object) -> Iterator[Flaw]:
        """The gate says only that something is wrong; jsonschema says what."""
        nothing = True
        self._strict = self._strict or _strict_validator(self._schema)
        for error in self._strict.iter_errors(value):
            for flaw in _words(error):
                nothing = False
                yield flaw
        if nothing:
            # Where the two differ, the stricter one decides.
            for refused in self._check.iter_errors(value):
                path = tuple(refused.instance_path)
                yield from words_of(
                    FailedKeyword(
                        keyword="", path=path, value=value, schema={}, message=refused.message
                    )
                )


@lru_cache(maxsize=64)
def validator_of(text: str) -> Validator:
    """A schema is made ready once a process: whoever works on reads by the same ones again."""
    return Validator(text)


def _strict_validator(schema: Mapping[str, object]) -> object:
    # A tenth of a second to import, and only a value that is wrong needs it.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    own = {"pattern": _whole_match, "uniqueItems": _all_differ}
    return extend(Draft202012Validator, own)(schema)


def _whole_match(
    validator: object, pattern: str, instance: object, schema: Mapping[str, object]
) -> Iterator[ValidationError]:
    """`pattern` without Python's leaks: no newline behind the end, no digits but 0 to 9."""
    from jsonschema import ValidationError

    if isinstance(instance, str) and not re.fullmatch(pattern, instance, re.ASCII):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _all_differ(
    validator: object, wanted: bool, instance: object, schema: Mapping[str, object]
) -> Iterator[ValidationError]:
    """`uniqueItems` in one pass: jsonschema's own compares each entry with each."""
    from jsonschema import ValidationError

    if wanted and isinstance(instance, list) and any(repetitions(instance)):
        yield ValidationError("something stands twice in it")


def _words(error: ValidationError) -> Iterable[Flaw]:
    keyword, path = str(error.validator or "falseSchema"), tuple(error.absolute_path)
    if keyword in ("anyOf", "oneOf") and error.context:
        branches: dict[object, list[ValidationError]] = {}
        for inner in error.context:
            branches.setdefault(inner.schema_path[0], []).append(inner)
        likely = min(branches.values(), key=_unlikely)
        return chain.from_iterable(map(_words, likely))
    if "propertyNames" in error.absolute_schema_path:
        keyword = "propertyNames"
    return words_of(
        FailedKeyword(
            keyword=keyword,
            path=path,
            value=error.instance,
            schema=error.schema if isinstance(error.schema, Mapping) else {},
            wanted=error.validator_value,
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


def _unlikely(branch: list[ValidationError]) -> tuple[bool, int]:
    """An alternative that is one fixed word is seldom what somebody tried to write."""
    return branch[0].validator in ("const", "enum"), len(branch)


def _whole_patterns(schema: object) -> Any:
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


def _marked(root: Any, schema: Any, path: Path, mark: str) -> Iterator[tuple[Path, Any]]:
    """Paths to the fields with a mark, and what it says; `*` stands for each entry of a list."""
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from _marked(root, target, path, mark)
    if mark in schema:
        yield path, schema[mark]
    if "items" in schema:
        yield from _marked(root, schema["items"], (*path, "*"), mark)
    for name, inner in schema.get("properties", {}).items():
        yield from _marked(root, inner, (*path, name), mark)


def _reached(value: object, at: Path, path: Path) -> Iterator[tuple[Path, Any]]:
    """Each place of a value that a marked path leads to, with what stands there."""
    for depth, part in enumerate(path):
        if part == "*" and isinstance(value, list):
            for index, item in enumerate(value):
                yield from _reached(item, (*at, index), path[depth + 1 :])
            return
        if not isinstance(value, dict) or part not in value:
            return
        at, value = (*at, part), value[part]
    yield at, value


def _several(fields: Any) -> tuple[str, ...]:
    return (fields,) if isinstance(fields, str) else tuple(fields)


def _repeated(entries: object, at: Path, fields: tuple[str, ...]) -> Iterator[Flaw]:
    seen: dict[tuple[object, ...], int] = {}
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(entry, dict) or not all(field in entry for field in fields):
            continue
        key = tuple(str(entry[field]) for field in fields)
        if key in seen:
            yield repeated_entry((*at, index), fields, key, seen[key])
        seen.setdefault(key, index)
