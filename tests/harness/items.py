"""Work items for tests: short ones of a verb, and those that no verb takes."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from reconciler.model.codec import camel, decode
from reconciler.model.plan.items.item import WorkItem
from reconciler.model.plan.verb import item_of

EMPTY: Mapping[Any, Any] = {str: "", int: 0, bool: False}


class RawItem(dict[str, Any], WorkItem):
    """Whatever a test wants a host to be told, of whatever shape."""

    @property
    def allocation_id(self) -> str | None:
        return self.get("id")


def make_item(verb: str, **given: Any) -> WorkItem:
    """The item of a verb, by the keys of its JSON; what is not given is empty."""
    cls = item_of(verb)
    return decode(cls, _filled(cls, given))


def _filled(cls: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    whole = {camel(f.name): _value(hints[f.name], given, camel(f.name)) for f in _fields(cls)}
    assert given.keys() <= whole.keys(), given.keys() - whole.keys()
    return whole


def _fields(cls: Any) -> tuple[Any, ...]:
    return dataclasses.fields(cls)


def _value(annotation: Any, given: Mapping[str, Any], key: str) -> Any:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and dataclasses.is_dataclass(args[0]):
        return [_filled(args[0], one) for one in given.get(key, ())]
    empty = [] if origin is tuple else {} if origin is not None else EMPTY[annotation]
    return given.get(key, None if type(None) in args else empty)
