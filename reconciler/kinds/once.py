"""Once: indexes over all of Desired, built the first time that any resource's check asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

from reconciler.model.desired import Desired

T = TypeVar("T")


def once(build: Callable[[Desired], T]) -> Callable[[Desired], T]:
    """Remember what `build` made of the last Desired: a check per resource stays linear."""

    @lru_cache(maxsize=1)
    def remembered(same: _Same) -> T:
        return build(same.desired)

    @wraps(build)
    def look_up(desired: Desired) -> T:
        return remembered(_Same(desired))

    return look_up


class _Same:
    """Desired as a key by identity: it is frozen, and far too big to be hashed by value."""

    def __init__(self, desired: Desired) -> None:
        self.desired = desired

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.desired is self.desired

    def __hash__(self) -> int:
        return id(self.desired)
