"""Once: indexes over all of Desired, built the first time that any resource's check asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from reconciler.model.desired import Desired

T = TypeVar("T")


def once(build: Callable[[Desired], T]) -> Callable[[Desired], T]:
    """Remember what `build` made of the last Desired: a check per resource stays linear.

    The same by identity: it is frozen, and far too big to be compared by value.
    """
    last: list[tuple[Desired, T]] = []

    @wraps(build)
    def look_up(desired: Desired) -> T:
        if not last or last[0][0] is not desired:
            last[:] = [(desired, build(desired))]
        return last[0][1]

    return look_up
