"""Keyed lists: their elements are known by a key, as their order means nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.model.problem import PathPart

KEYS = (
    ("bundle", "version"),
    ("ref", "key"),
    ("name",),
    ("id",),
    ("user",),
    ("version",),
    ("allocation",),
)
"""The fields that are keys in some list, the longest first."""


def numbered(value: Any, path: Sequence[PathPart]) -> tuple[PathPart, ...]:
    """`path` into `value` with elements of lists by number where they stand by key.

    An element that is not there ends the path above it.
    """
    found: list[PathPart] = []
    for part in path:
        if isinstance(value, list) and isinstance(part, str):
            at = next((at for at, one in enumerate(value) if _is(one, part)), None)
            if at is None:
                break
            part = at
        found.append(part)
        value = _below(value, part)
    return tuple(found)


def _is(element: Any, key: str) -> bool:
    if isinstance(element, Mapping):
        keys = (fields for fields in KEYS if all(field in element for field in fields))
        return any(key == " ".join(str(element[field]) for field in fields) for fields in keys)
    return bool(element == key)


def _below(value: Any, part: PathPart) -> Any:
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None
