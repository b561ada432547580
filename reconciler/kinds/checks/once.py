"""Cached indexes over a whole Desired or World, each built on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Whole = TypeVar("Whole")
T = TypeVar("T")


def once(build: Callable[[Whole], T]) -> Callable[[Whole], T]:
    """Remember what `build` made of the last one: a look per resource stays linear.

    The same by identity: it is frozen, and far too big to be compared by value.
    """
    last: list[tuple[Whole, T]] = []

    @wraps(build)
    def look_up(whole: Whole) -> T:
        if not last or last[0][0] is not whole:
            last[:] = [(whole, build(whole))]
        return last[0][1]

    return look_up
