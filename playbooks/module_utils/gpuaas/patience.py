"""Patience: something is asked again and again, until it is so or the time is over."""

from __future__ import annotations

import time
from typing import Callable


def comes_true(is_so: Callable[[], bool], seconds: float, rest: float) -> bool:
    """Whether it is so at once, after one of the rests, or a last time when the time is over."""
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() >= until:
            return False
        time.sleep(rest)
    return True
