"""Versions in numeric order: 2.10 comes after 2.9."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERS = re.compile(r"(\d+)")
_FIGURES = re.compile(r"\d+(\.\d+)*")


def in_order(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=natural)


def newest(versions: Iterable[str]) -> str:
    """The newest version; empty for none."""
    return max(versions, key=natural, default="")


def natural(version: str) -> list[tuple[int, int, str]]:
    parts = filter(None, _NUMBERS.split(version))
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


def figures(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, if any; 550 and 550.0 are the same."""
    found = _FIGURES.match(text)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
