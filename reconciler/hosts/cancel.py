"""Cancellation: programs that threads wait for end as soon as somebody asks, or interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

Wish = Callable[[], bool]
TICK_SECONDS = 0.2
"""How often who listens looks whether there is a wish."""


def nobody_wishes() -> bool:
    return False


@contextmanager
def halting(wish: Wish) -> Iterator[Wish]:
    """`wish`, which also comes true when this is left by an exception.

    Whoever is interrupted while threads work for them first waits for them to end.
    """
    over = Event()
    try:
        yield lambda: over.is_set() or wish()
    except BaseException:
        over.set()
        raise
