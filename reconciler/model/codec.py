"""Frozen dataclasses to plain JSON values and back, by their own annotations.

Fields are camelCase in JSON and snake_case in Python; refs are text. What is decoded was
validated before: a value of a wrong shape here is a defect and raises TypeError or KeyError.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, Union

from reconciler.model.ref import Ref, parse_ref

T = TypeVar("T")
Decoder = Callable[[Any], Any]


def camel(name: str) -> str:
    """`perGpuHour` for `per_gpu_hour`; a trailing underscore (`class_`) only escapes a keyword."""
    head, *tail = name.rstrip("_").split("_")
    return head + "".join(SPELLING.get(part, part.capitalize()) for part in tail)


def written_as(nothing: int | None) -> Mapping[str, object]:
    """Of a field whose None is written, and read back, as this; one of metadata."""
    return MappingProxyType({"nothing": nothing})


def chosen(by: str, choice: Callable[[str], type]) -> Mapping[str, object]:
    """Of a field whose class another one says: `choice` of what stands at the key `by`."""
    return {"chosen": (by, choice)}


SPELLING = {"gib": "GiB", "mib": "MiB"}
_PLAIN = frozenset({str, int, bool, float, type(None)})


def encode(value: Any) -> Any:
    """Plain JSON values; a field that is None is left out, which says *not stated*, unless it is
    `written_as` something.
    """
    cls: type = type(value)
    return value if cls in _PLAIN else _encoder(cls)(value)


def decode(cls: type[T], value: Any) -> T:
    """Build a `cls` from plain JSON values. Defaults fill what is missing, or None if it may be."""
    annotation: Any = cls
    result: T = _decoder(annotation)(value)
    return result


@cache
def _names(cls: type) -> tuple[tuple[str, str], ...]:
    """Those that are stated; what a value only remembers of itself is nobody's business."""
    stated = (field for field in dataclasses.fields(cls) if not field.name.startswith("_"))
    return tuple((field.name, camel(field.name)) for field in stated)


@cache
def _encoder(cls: type) -> Callable[[Any], Any]:
    if issubclass(cls, Ref):
        return str
    if dataclasses.is_dataclass(cls):
        names = _names(cls)
        if nothing := _nothing(cls):
            return lambda value: {
                key: encode(nothing[name] if item is None else item)
                for name, key in names
                if (item := getattr(value, name)) is not None or name in nothing
            }
        return lambda value: {
            key: encode(item) for name, key in names if (item := getattr(value, name)) is not None
        }
    if issubclass(cls, Mapping):
        return lambda value: {str(key): encode(item) for key, item in value.items()}
    if issubclass(cls, (tuple, list)):
        return lambda value: [encode(item) for item in value]
    if issubclass(cls, (frozenset, set)):
        return lambda value: sorted(encode(item) for item in value)
    return (lambda value: value.value) if issubclass(cls, StrEnum) else _same


@cache
def _decoder(annotation: Any) -> Decoder:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Ref:
        return _decode_ref
    if dataclasses.is_dataclass(annotation):
        of: Any = annotation
        return _dataclass_decoder(of)
    if origin in (Union, types.UnionType):
        inner = [arg for arg in args if arg is not type(None)]
        one = _decoder(inner[0]) if len(inner) == 1 else _same
        return lambda value: None if value is None else one(value)
    if origin is tuple:
        item = _decoder(args[0])
        return (
            (lambda value: tuple(value))
            if item is _same
            else (lambda value: tuple([item(part) for part in value]))
        )
    if origin is frozenset:
        return frozenset
    if origin in (dict, Mapping):
        read_key, read_item = _decoder(args[0]), _decoder(args[1])
        return lambda value: {read_key(k): read_item(v) for k, v in value.items()}
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return annotation
    return _same


def _nothing(cls: type) -> Mapping[str, object]:
    """Field → what its None is written as."""
    told = {field.name: field.metadata for field in dataclasses.fields(cls)}
    return {name: about["nothing"] for name, about in told.items() if "nothing" in about}


def _unless(nothing: object, read: Decoder) -> Decoder:
    return lambda value: None if value == nothing else read(value)


def _same(value: Any) -> Any:
    return value


def _decode_ref(value: Any) -> Ref:
    ref = parse_ref(value)
    if ref is None:
        raise TypeError(f"not a ref: {value!r}")
    return ref


def _dataclass_decoder(cls: type) -> Decoder:
    hints = typing.get_type_hints(cls)
    varied = {
        field.name: field.metadata["chosen"]
        for field in dataclasses.fields(cls)
        if "chosen" in field.metadata
    }
    readers = {
        key: (name, _same if name in varied else _decoder(hints[name])) for name, key in _names(cls)
    }
    for name, empty in _nothing(cls).items():
        readers[camel(name)] = (name, _unless(empty, readers[camel(name)][1]))
    left_out = {
        field.name: None
        for field in dataclasses.fields(cls)
        if field.default is field.default_factory is dataclasses.MISSING
        and type(None) in typing.get_args(hints[field.name])
    }

    def read(value: Any) -> Any:
        arguments: dict[str, Any] = dict(left_out)
        for key, item in value.items():
            name, reader = readers[key]
            arguments[name] = item if reader is _same else reader(item)
        for name, (by, choice) in varied.items():
            arguments[name] = decode(choice(value[by]), arguments[name])
        return cls(**arguments)

    return read
