"""The lease of the loop: whether one lives that does alone what may go alone.

The kernel holds the lock, so it dies with its holder. Nothing else of the loop is loaded for that.
"""

from __future__ import annotations

import fcntl
import os

from reconciler.operations.wiring import Fleet

LOCK = "loop.lock"


def is_held(fleet: Fleet) -> bool:
    """Whether a loop lives."""
    try:
        handle = os.open(fleet.state / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
