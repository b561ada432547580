"""`edit --set PATH=VALUE`: a value by its path, read by what the schema has there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from reconciler import shipped
from reconciler.kinds.checks.secrecy import find_secrets
from reconciler.model.problem import refuse
from reconciler.operations.edit.contract import WRITE, EditWish, SpecEdit
from reconciler.operations.edit.edit import (
    begin,
    document_of,
    finish,
    mapping_of,
)
from reconciler.operations.fleet import Fleet
from reconciler.specs.edit import edit as writer
from reconciler.specs.edit.edit import Valued
from reconciler.specs.read.yaml_reader import read_documents

LONGEST, TOLD = 8192, 60
"""So long may a value be, and so much of a path is told that sets nothing."""

FIXED = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "project"))
"""What a document is called; another name is another document."""

PART = re.compile(r"\.?([A-Za-z][\w/-]*)|\[([^\[\]]+)\]")
WHERE = "write it as in spec.sizeGiB=200, spec.storage[0].mode=ro or spec.storage[NAME].mode=ro"

Path = tuple[str | int, ...]


def set_values(
    fleet: Fleet, named: str, settings: Sequence[str], wish: EditWish = WRITE
) -> SpecEdit:
    """Set values of one document, all or none. Raises ProblemError, and then nothing is written."""
    opened = begin(fleet, named)
    after, told = opened.content, []
    for setting in settings:
        for secret in find_secrets(setting):
            # Before any message could repeat it.
            raise refuse(secret.code, secret.message, secret.hint)
        path_text, equals, text = setting.partition("=")
        if not equals or len(text) > LONGEST or not setting.isprintable():
            message = f"{path_text[:TOLD]!r} sets nothing: PATH=VALUE, in one line"
            raise refuse("usage", message, WHERE)
        value = document_of(opened, after)
        path = path_of(path_text, opened.ref.kind, value)
        if path in FIXED:
            raise refuse(
                "edit_unsound",
                f"{path_text} is what the document is called: with another it would be another",
                f"for a new one: gpuaas new {opened.ref.kind}",
            )
        entry = {str(path[-1]): value_of(text, node_at(opened.ref.kind, path))}
        change = Valued(path=path[:-1], values=entry)
        after = writer.with_changes(opened.file, after, opened.document, [change])
        told.append(path_text)
    return finish(fleet, opened, after, f"Set {', '.join(told)} of {opened.ref}", wish)


def path_of(text: str, kind: str, value: Mapping[str, object]) -> Path:
    """`spec.storage[datasets].mode` as words and numbers. Raises ProblemError `usage`.

    An entry of a list is told by its number, or by what tells it apart by the schema.
    """
    found: list[str | int] = []
    at = 0
    current: object = value
    while at < len(text):
        part = PART.match(text, at)
        if part is None:
            raise refuse("usage", f"{text!r} is no path", WHERE)
        if part[1]:
            found.append(part[1])
            current = mapping_of(current).get(part[1])
        else:
            number = _entry(part[2], current, node_at(kind, tuple(found)))
            if number is None:
                raise refuse("usage", f"{text!r}: there is no entry {part[2]}", WHERE)
            found.append(number)
            current = current[number] if isinstance(current, list) else None
        at = part.end()
    if not found or isinstance(found[-1], int) or text.startswith("."):
        raise refuse("usage", f"{text!r} names no value of a mapping", WHERE)
    return tuple(found)


def _entry(word: str, entries: object, node: Mapping[str, object]) -> int | None:
    if not isinstance(entries, list):
        return None
    if word.isascii() and word.isdecimal():
        return int(word) if len(word) < 6 and int(word) < len(entries) else None
    keyed = node.get("x-key")
    key = keyed[0] if isinstance(keyed, list) and keyed else keyed
    found = (at for at, one in enumerate(entries) if mapping_of(one).get(str(key)) == word)
    return next(found, None)


def node_at(kind: str, path: Path) -> Mapping[str, object]:
    """What the schema of a kind says of a path; empty where it has none."""
    whole = mapping_of(json.loads(shipped.schemas()[kind]))
    here = whole
    for part in path:
        if isinstance(part, int):
            below = here.get("items")
        else:
            below = mapping_of(here.get("properties")).get(part, here.get("additionalProperties"))
        here = _resolved(mapping_of(below), whole)
    return here


def _resolved(node: Mapping[str, object], whole: Mapping[str, object]) -> Mapping[str, object]:
    """The node with what it refers to, and so each of its choices."""
    if isinstance(ref := node.get("$ref"), str):
        node = {**mapping_of(mapping_of(whole.get("$defs")).get(ref.rpartition("/")[2])), **node}
    either = node.get("anyOf")
    if not isinstance(either, list):
        return node
    return {**node, "anyOf": [_resolved(mapping_of(one), whole) for one in either]}


def value_of(text: str, node: Mapping[str, object]) -> object:
    """A text as it stands where the schema wants text; else what it is as YAML on one line.

    Raises ProblemError `usage`.
    """
    if "string" in set(_types(node)):
        return text
    parsed = read_documents("VALUE", f"value: {text}\n".encode())
    values = [one.document.value for one in parsed.documents]
    if parsed.problems or len(values) != 1 or list(values[0]) != ["value"]:
        why = parsed.problems[0].message if parsed.problems else "it is more than one value"
        raise refuse("usage", f"{text!r} is no value: {why}", "as in 200, true or [ana, bo]")
    found: object = values[0]["value"]
    return found


def _types(node: Mapping[str, object]) -> Iterator[str]:
    stated = node.get("type")
    yield from [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    choices = node.get("enum", [node["const"]] if "const" in node else [])
    if isinstance(choices, list) and any(isinstance(one, str) for one in choices):
        yield "string"
    either = node.get("anyOf")
    for one in either if isinstance(either, list) else ():
        yield from _types(one)
