"""Schema errors, in the words of the person who wrote the file.

The sentences are made of the schema's own descriptions. Two keywords of ours speak as well:
`x-hints` (what to do about a field that people try, but that is none) and `x-reserved`, with a code
of its own in `x-reserved-code` where that says more, as `x-code` is that of a choice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.model.problem import PathPart, Problem
from reconciler.model.records import dataclass
from reconciler.model.spec.features import FEATURES
from reconciler.specs.read.suggest import did_you_mean

Path = tuple[PathPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """A problem at a path of a value; `key`: its key is wrong, not what stands behind it."""

    path: Path
    problem: Problem
    key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedKeyword:
    """A keyword that failed: what it wanted, the schema it stands in, the value it was put to."""

    keyword: str
    path: Path
    value: Any
    schema: Mapping[str, Any]
    wanted: Any = None
    message: str = ""

    @property
    def expected(self) -> str:
        """What the schema says should stand here."""
        text: str = self.schema.get("description", "")
        return text

    def says(self, code: str, message: str, hint: str = "") -> list[Flaw]:
        problem = Problem(code=code, message=message, hint=hint or self.expected)
        return [Flaw(path=self.path, problem=problem)]


def words_of(found: FailedKeyword) -> Iterable[Flaw]:
    return _WORDS.get(found.keyword, _anything_else)(found)


def repeated_entry(path: Path, fields: Iterable[str], key: Iterable[str], first: int) -> Flaw:
    named = ", ".join(f"{name} {value}" for name, value in zip(fields, key, strict=True))
    problem = Problem(
        code="value_repeated",
        message=f"{named} stands twice: entry {first + 1} of this list has it already",
        hint="delete one of them, or give it a name of its own",
    )
    return Flaw(path=path, problem=problem)


def gated_field(path: Path, name: str) -> Flaw:
    """A field of a feature that is known and not built: nothing would keep what it says."""
    feature = FEATURES[name]
    problem = Problem(
        code=feature.code,
        message=f"`{path[-1]}` is known, and nothing of this version keeps it yet: {name}",
        hint="take it out; " + (feature.instead or "what is built: gpuaas features"),
    )
    return Flaw(path=path, problem=problem, key=True)


def repetitions(entries: Sequence[object]) -> Iterator[int]:
    """Where an entry of a list stands that stood in it before."""
    seen = set()
    for index, entry in enumerate(entries):
        text = json.dumps(entry, sort_keys=True)
        if text in seen:
            yield index
        seen.add(text)


def _unknown_fields(found: FailedKeyword) -> Iterator[Flaw]:
    legal = found.schema.get("properties", {})
    hints = found.schema.get("x-hints", {})
    for name in sorted(found.value.keys() - legal.keys()):
        code, message = "field_unknown", f"`{name}` is no field {_of(found.path)}"
        hint = hints.get(name) or did_you_mean(name, legal)
        if name in found.schema.get("x-reserved", ()):
            code = found.schema.get("x-reserved-code", "field_reserved")
            message = f"`{name}` is reserved for a later version"
            hint = "delete it"
        problem = Problem(code=code, message=message, hint=hint)
        yield Flaw(path=(*found.path, name), problem=problem, key=True)


def _missing_field(found: FailedKeyword) -> list[Flaw]:
    return [_missing(found, name) for name in found.wanted if name not in found.value]


def _missing(found: FailedKeyword, name: str) -> Flaw:
    meaning = found.schema.get("properties", {}).get(name, {}).get("description", "")
    problem = Problem(
        code="field_missing",
        message=f"`{name}` is missing {_of(found.path, 'in')}",
        hint=f"add `{name}:` – {meaning}" if meaning else f"add `{name}:`",
    )
    return Flaw(path=(*found.path, name), problem=problem, key=True)


def _wrong_type(found: FailedKeyword) -> list[Flaw]:
    types = [found.wanted] if isinstance(found.wanted, str) else found.wanted
    wanted = [_TYPES.get(name, name) for name in types]
    message = f"{show(found.value)} is {_type(found.value)}, but {' or '.join(wanted)} is needed"
    hint = ""
    if "string" in types and isinstance(found.value, (int, float)):
        hint = "put it in quotes, exactly as it is meant"
    elif "integer" in types and isinstance(found.value, str):
        hint = "write digits alone: no quotes, exponent, unit or separator"
    return found.says("value_type", message, hint)


def _wrong_choice(found: FailedKeyword) -> list[Flaw]:
    options = found.wanted if found.keyword == "enum" else [found.wanted]
    texts = [str(option) for option in options]
    named = ", ".join(texts)
    message = f"{show(found.value)} is not one of {named}"
    if len(texts) == 1:
        message = f"{show(found.value)} cannot stand here: it must be {named}"
    value = found.value
    hint = did_you_mean(value, texts) if isinstance(value, str) else f"write one of: {named}"
    return found.says(found.schema.get("x-code", "value_choice"), message, hint)


def _wrong_form(found: FailedKeyword) -> list[Flaw]:
    return found.says("value_pattern", f"{show(found.value)} has not the right form")


def _wrong_word(found: FailedKeyword) -> list[Flaw]:
    return found.says("value_choice", f"{show(found.value)} may not stand here")


def _out_of_range(found: FailedKeyword) -> list[Flaw]:
    sentence = _RANGES[found.keyword].format(show(found.value), found.wanted)
    return found.says("value_range", sentence)


def _repeated_value(found: FailedKeyword) -> Iterator[Flaw]:
    for index in repetitions(found.value):
        problem = Problem(
            code="value_repeated",
            message=f"{show(found.value[index])} stands twice in this list",
            hint="delete one of them",
        )
        yield Flaw(path=(*found.path, index), problem=problem)


def _wrong_key(found: FailedKeyword) -> list[Flaw]:
    key = str(found.value)
    problem = Problem(
        code="value_pattern",
        message=f"{show(key)} has not the right form for a key",
        hint=found.expected or "use lower case letters, digits, dots and dashes",
    )
    return [Flaw(path=(*found.path, key), problem=problem, key=True)]


def _forbidden(found: FailedKeyword) -> list[Flaw]:
    name = found.path[-1] if found.path else "it"
    return found.says("field_forbidden", f"`{name}` may not stand here", "delete it")


def _several_of(found: FailedKeyword) -> list[Flaw]:
    return found.says("field_forbidden", "these fields exclude each other", "keep one of them")


def _anything_else(found: FailedKeyword) -> list[Flaw]:
    return found.says("document_rejected", found.message)


_WORDS: Mapping[str, Callable[[FailedKeyword], Iterable[Flaw]]] = {
    "additionalProperties": _unknown_fields,
    "required": _missing_field,
    "type": _wrong_type,
    "enum": _wrong_choice,
    "const": _wrong_choice,
    "pattern": _wrong_form,
    "not": _wrong_word,
    "uniqueItems": _repeated_value,
    "propertyNames": _wrong_key,
    "falseSchema": _forbidden,
    "oneOf": _several_of,
}
_RANGES = {
    "minimum": "{0} is too small: {1} is the least",
    "maximum": "{0} is too large: {1} is the most",
    "exclusiveMinimum": "{0} is too small: it must be more than {1}",
    "exclusiveMaximum": "{0} is too large: it must be less than {1}",
    "minLength": "{0} is too short: {1} characters are the least",
    "maxLength": "{0} is too long: {1} characters are the most",
    "minItems": "the list is too short: it needs at least {1}",
    "maxItems": "the list is too long: {1} entries are the most",
    "minProperties": "too few fields: {1} are the least",
    "maxProperties": "too many fields: {1} are the most",
}
_WORDS = {**_WORDS, **dict.fromkeys(_RANGES, _out_of_range)}

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping of fields",
    "array": "a list",
}


def _type(value: object) -> str:
    match value:
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _of(path: Path, word: str = "of") -> str:
    names = [str(part) for part in path if isinstance(part, str)]
    return f"{word} `{'.'.join(names)}`" if names else f"{word} this document"


def show(value: object, limit: int = 48) -> str:
    """A value as it could be written, cut to fit a sentence; a container only by what it is."""
    if isinstance(value, (dict, list)):
        return "this"
    text = json.dumps(value[:limit] if isinstance(value, str) else value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
