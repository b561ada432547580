"""Values as YAML, as a person would write them: quotes where needed, short things on one line.

What is written here reads back as it was; the editor checks it against our own loader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from reconciler.specs.read.scalars import plain

WIDTH, STEP = 94, 2
"""What stands on one line is no wider, and is set in by a few steps."""

_UNQUOTED = re.compile(r"[A-Za-z][\w./-]*(?: [\w./()+-]+)*", re.ASCII)


def document(value: Mapping[str, object]) -> str:
    """One document, without a separator."""
    return "".join(f"{line}\n" for line in block(value))


def block(value: Mapping[str, object]) -> Iterator[str]:
    """A mapping as lines, from column 0."""
    for key, item in value.items():
        yield from _entry(key, item)


def items(value: Sequence[object], offset: int = STEP) -> Iterator[str]:
    """A list as lines, its dashes at column 0 and what belongs to each at `offset`."""
    for item in value:
        lines = list(block(item)) if item and isinstance(item, Mapping) else [flow(item)]
        for number, line in enumerate(lines):
            yield f"{' ' * offset if number else '-'.ljust(offset)}{line}"


def flow(value: object) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def scalar(value: object) -> str:
    """Text without quotes only if no reader could take it for anything else.

    Within quotes nothing stands as it is that YAML has no place for, or nobody would see.
    """
    if isinstance(value, str) and _UNQUOTED.fullmatch(value) and plain(value) == value:
        return value
    if isinstance(value, float):
        # Our decimals know no exponent, whatever their size.
        whole, _, rest = format(Decimal(repr(value)), "f").partition(".")
        return f"{whole}.{rest or 0}"
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def _entry(key: str, item: object) -> Iterator[str]:
    head = f"{scalar(key)}:"
    if _is_short(item) and len(line := f"{head} {flow(item)}") <= WIDTH:
        yield line
    elif isinstance(item, Mapping):
        yield head
        yield from (f"{' ' * STEP}{line}" for line in block(item))
    elif isinstance(item, (list, tuple)):
        yield head
        yield from (f"{' ' * STEP}{line}" for line in items(item))
    else:
        yield f"{head} {scalar(item)}"


def _is_short(item: object) -> bool:
    """Whether it may stand on one line: nothing in it holds anything in turn."""
    if not isinstance(item, (Mapping, list, tuple)):
        return True
    inner = item.values() if isinstance(item, Mapping) else item
    return not any(isinstance(one, (Mapping, list, tuple)) for one in inner)
