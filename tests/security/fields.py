"""Every text field of every kind, found in the schemas, and a document in which each one stands.

Files in `everything`, one a kind, state every field; a test fails for one that a schema has and no
document. Together they are one fleet: what is hostile is put in its places.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from reconciler import shipped
from reconciler.model.ref import KIND_WORDS
from reconciler.specs.read.yaml_reader import read_documents
from tests.security.corpus import quoted

EVERYTHING = Path(__file__).parent / "everything"
LONGEST_SIMPLE_KEY = 256
"""YAML itself allows some more; whoever writes a longer one has to say that it is a key."""

Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """`name` is its place in the schema, `path` one in the document; `is_key`: it is a key."""

    name: str
    path: Where
    is_key: bool
    sample: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A document and its text fields."""

    schema: str
    value: Mapping[str, Any]
    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"{self.schema} {self.value.get('metadata', {}).get('name', '')}".strip()

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)

    def written(self, texts: Mapping[Field, str]) -> Written:
        """The document as YAML, some of its fields with other texts."""
        return Written(self.value, {(field.path, field.is_key): t for field, t in texts.items()})


class Written:
    """YAML, a field a line, that knows where each text of it stands."""

    def __init__(self, value: Any, texts: Mapping[tuple[Where, bool], str]) -> None:
        self.texts = texts
        self.lines: list[str] = []
        self.places: dict[tuple[Where, bool], tuple[int, int]] = {}
        """Line and column from 1."""
        self.paths: dict[tuple[Where, bool], Where] = {}
        """The path that a field has now, which differs below a key that was changed."""
        self._put(value, "", (), ())

    @property
    def content(self) -> bytes:
        return "\n".join((*self.lines, "")).encode()

    def _put(self, value: Any, before: str, path: Where, now: Where) -> None:
        """In flow style: whatever a text holds, its line and those around it stay what they are."""
        if isinstance(value, dict):
            self.lines.append(f"{before}{{")
            for key, item in value.items():
                new = self.texts.get(((*path, key), True), key)
                inner = (*now, new)
                mark = "? " if len(new) > LONGEST_SIMPLE_KEY else ""
                self._note((*path, key), True, len(mark) + 1, inner)
                self._put(item, f"{mark}{quoted(new)}: ", (*path, key), inner)
            self.lines.append("}," if path else "}")
        elif isinstance(value, list):
            self.lines.append(f"{before}[")
            for number, item in enumerate(value):
                self._put(item, "", (*path, number), (*now, number))
            self.lines.append("],")
        else:
            text = self.texts.get((path, False), value)
            self._note(path, False, len(before) + 1, now)
            shown = quoted(text) if isinstance(text, str) else json.dumps(text)
            self.lines.append(f"{before}{shown},")

    def _note(self, path: Where, is_key: bool, column: int, now: Where) -> None:
        self.places[path, is_key] = len(self.lines) + 1, column
        self.paths[path, is_key] = now


@cache
def samples() -> tuple[Sample, ...]:
    """The documents, each with the fields that no earlier one has."""
    known: set[str] = set()
    found = []
    for schema, value in _documents():
        fields = {one.name: one for one in reversed([*stated(schema, value)])}
        new = tuple(field for name, field in fields.items() if name not in known)
        known |= fields.keys()
        found.append(Sample(schema=schema, value=value, fields=new))
    return tuple(found)


def _documents() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in sorted(EVERYTHING.glob("*.yaml")):
        parsed = read_documents(path.name, path.read_bytes())
        assert not parsed.problems, parsed.problems
        for located in parsed.documents:
            value = located.document.value
            yield KIND_WORDS.get(value.get("kind", ""), "settings"), value


def text_fields(schema: str) -> Iterator[str]:
    """All that a schema knows, stated or not."""
    root = _root(schema)
    for name, _ in _texts(root, root, schema):
        yield name


def _texts(root: Any, schema: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Name and schema of each text in it: of values, of keys, of entries, of alternatives."""
    for part in _alternatives(root, schema):
        if _is_text(part):
            yield name, part
        for key, inner in part.get("properties", {}).items():
            if "x-gate" in inner:
                continue  # Whatever it says is refused.
            yield from _texts(root, inner, f"{name}.{key}")
        if isinstance(part.get("additionalProperties"), dict):
            yield f"{name}.<key>", part.get("propertyNames", {})
            yield from _texts(root, part["additionalProperties"], f"{name}.<value>")
        if "items" in part:
            yield from _texts(root, part["items"], f"{name}[]")


def _alternatives(root: Any, schema: Any) -> Iterator[Any]:
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from _alternatives(root, target)
    for word in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(word, ()):
            yield from _alternatives(root, inner)
    yield schema


def _is_text(schema: Any) -> bool:
    fixed = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    types = schema.get("type", ())
    return "string" in ([types] if isinstance(types, str) else types) or any(
        isinstance(one, str) for one in fixed
    )


@cache
def _root(schema: str) -> Any:
    return json.loads(shipped.schemas()[schema])


@cache
def _gates(schema: str) -> Mapping[str, list[Any]]:
    """Field → what takes or refuses its texts, for each alternative."""
    root = _root(schema)
    found: dict[str, list[Any]] = {}
    for name, part in _texts(root, root, schema):
        whole = {"pattern": f"^(?:{part['pattern']})$"} if "pattern" in part else {}
        gate = jsonschema_rs.validator_for({**part, **whole, "$defs": root["$defs"]})
        found.setdefault(name, []).append(gate)
    return found


def accepts(field: str, text: str) -> bool:
    """Whether the schema lets a text stand there; linking may still find fault with it."""
    return any(gate.is_valid(text) for gate in _gates(field.split(".")[0])[field])


def stated(schema: str, value: Any) -> Iterator[Field]:
    """The text fields of a document."""
    root = _root(schema)
    found: dict[tuple[Where, bool], Field] = {}
    for field in _fields(root, root, value, (), schema):
        found.setdefault((field.path, field.is_key), field)
    yield from found.values()


def _fields(root: Any, schema: Any, value: Any, path: Where, name: str) -> Iterator[Field]:
    for part in _alternatives(root, schema):
        if isinstance(value, str) and _is_text(part):
            yield Field(name=name, path=path, is_key=False, sample=value)
        for key, item in value.items() if isinstance(value, dict) else ():
            if key in part.get("properties", {}):
                yield from _fields(
                    root, part["properties"][key], item, (*path, key), f"{name}.{key}"
                )
            elif isinstance(part.get("additionalProperties"), dict):
                yield Field(name=f"{name}.<key>", path=(*path, key), is_key=True, sample=key)
                more = part["additionalProperties"]
                yield from _fields(root, more, item, (*path, key), f"{name}.<value>")
        for number, item in enumerate(value) if isinstance(value, list) else ():
            if "items" in part:
                yield from _fields(root, part["items"], item, (*path, number), f"{name}[]")


def at(value: Any, path: Sequence[str | int]) -> Any:
    """What stands there; raises LookupError."""
    for part in path:
        value = value[part]
    return value
