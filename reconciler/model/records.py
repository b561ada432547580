"""Records: frozen dataclasses whose methods are generated on first use, which keeps loading fast.

A command loads hundreds of them and uses a few. What `dataclasses` writes and compiles for every
one of them is half of what a command takes to start.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(**options: bool) -> Any:
        """Like `dataclasses.dataclass`, which makes those that are not frozen, or have no slots."""
        kw_only = options.pop("kw_only", False)
        if options != {"frozen": True, "slots": True}:
            return dataclasses.dataclass(kw_only=kw_only, **options)
        return lambda cls: _record(cls, kw_only)


def _record(of: type, kw_only: bool) -> type:
    # Without a text of its own a class is given its signature, which takes longer than all else.
    of.__doc__ = of.__doc__ or of.__name__
    bare = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)
    cls: Any = bare(of)
    values = attrgetter(*names) if (names := _compared(cls)) else type

    def __init__(self: Any, *args: Any, **given: Any) -> None:
        cls.__init__ = _init_of(cls)
        cls.__init__(self, *args, **given)

    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is self.__class__:
            return bool(values(self) == values(other))
        return NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    own = (__init__, __eq__, __hash__, __repr__, __setattr__, __delattr__, *STATE)
    for method in own:
        if method.__name__ not in of.__dict__:
            setattr(cls, method.__name__, method)
    made: type = cls
    return made


def _compared(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls) if field.compare)


def _init_of(cls: Any) -> Any:
    """What `dataclasses` would write, by way of the slots: nothing else may set them."""
    named: dict[str, Any] = {"__default": DEFAULT}
    given, body = ["self"], []
    for field in sorted(dataclasses.fields(cls), key=lambda field: bool(field.kw_only)):
        name = value = field.name
        named |= {f"__set_{name}": getattr(cls, name).__set__}
        default = ""
        if field.default is not dataclasses.MISSING:
            named[f"__default_{name}"], default = field.default, f"=__default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            named[f"__make_{name}"], default = field.default_factory, "=__default"
            value = f"__make_{name}() if {name} is __default else {name}"
        if field.init:
            given += ["*"] if field.kw_only and "*" not in given else []
            given.append(name + default)
        elif default:
            value = f"__make_{name}()" if default == "=__default" else f"__default_{name}"
        if field.init or default:
            body.append(f" __set_{name}(self, {value})")
    body.append(" self.__post_init__()" if hasattr(cls, "__post_init__") else " pass")
    exec(f"def __init__({', '.join(given)}):\n" + "\n".join(body), named)
    made = named["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


DEFAULT = object()


def __repr__(self: Any) -> str:
    shown = (f.name for f in dataclasses.fields(self) if f.repr)
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({fields})"


def __setattr__(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def __delattr__(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def __getstate__(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def __setstate__(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


STATE = (__getstate__, __setstate__)
"""By which it is copied: otherwise that would set fields."""
