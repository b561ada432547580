"""Rows that are decoded on first use: a plan of an unchanged fleet reads few."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from reconciler.model.canonical import text_digest
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.state.world import Recorded
from reconciler.store.file.errors import damaged

Key = TypeVar("Key")
Value = TypeVar("Value")


class Rows(Mapping[Key, Value], Generic[Key, Value]):
    """Rows of one table by key, each made into its dataclass once, when it is first asked for."""

    def __init__(self, rows: dict[Key, Any], read: Callable[[Key, object], Value]) -> None:
        self._rows = rows
        self._read = read
        self._values: dict[Key, Value] = {}

    def __getitem__(self, key: Key) -> Value:
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = self._read(key, self._rows[key])
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class RecordedRows(Rows[Ref, Recorded]):
    """`World.recorded` as the store gives it: knows every digest without making a row."""

    def digests(self) -> Mapping[Ref, tuple[str, str]]:
        """(digest, basis) of every resource."""
        return {ref: (row[3], row[4]) for ref, row in self._rows.items()}


class JsonText(Mapping[str, Any]):
    """A mapping kept as the JSON it is stored as. With a `digest`, the text is held against it.

    Looking into it raises ProblemError `state_damaged` if it is not what was written.
    """

    __slots__ = ("_digest", "_path", "_text", "_value")

    def __init__(self, text: str, path: Path, digest: str = "") -> None:
        self._text = text
        self._path = path
        self._digest = digest
        self._value: dict[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        return self._load()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())

    def __repr__(self) -> str:
        return repr(self._load())

    def _load(self) -> dict[str, object]:
        if self._value is None:
            if self._digest and text_digest(self._text) != self._digest:
                raise damaged(self._path, "a resource is not what was recorded")
            self._value = read_json(self._text, self._path)
        return self._value


def read_json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise damaged(path, f"a row cannot be read: {error}") from error


def stored_ref(text: str) -> Ref:
    """A ref as a row has it."""
    ref = parse_ref(text)
    if ref is None:
        raise sqlite3.DatabaseError(f"{text!r} is no ref")
    return ref


def stored_since(connection: sqlite3.Connection, query: str) -> Mapping[Ref, str]:
    """Moments by ref, of a `query` for both."""
    return {stored_ref(ref): since for ref, since in connection.execute(query)}
