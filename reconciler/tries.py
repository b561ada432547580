"""Tries: to ask again and again whether something is so, as long as there is time for it."""

from __future__ import annotations

import time
from collections.abc import Iterator


def tries(seconds: float, *, rest: float) -> Iterator[None]:
    """A try at once, and after each rest another one, the last when the time is over.

    `for _ in tries(…): if so: break`, and in its `else` what follows where it never was.
    """
    until = time.monotonic() + seconds
    yield
    while time.monotonic() < until:
        time.sleep(rest)
        yield
