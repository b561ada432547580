"""The lease of the loop: whether a running loop does what needs no approval.

The kernel holds the lock, so it dies with its holder. Nothing else of the loop is loaded for that.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from reconciler.operations.fleet import Fleet

LOCK = "loop.lock"
CHECKED_OUT = Path("source", "checked-out")
"""In the folder of the state: written when a tree of the loop's mirror is whole."""


def is_held(fleet: Fleet) -> bool:
    """Whether a loop lives."""
    try:
        handle = os.open(fleet.state / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def tree_stamp(fleet: Fleet) -> str:
    """What is another after the loop has checked anything out; empty where it has nothing whole."""
    path = fleet.state / CHECKED_OUT
    with suppress(OSError, UnicodeDecodeError):
        return f"{path.read_text(encoding='ascii').strip()} {path.stat().st_mtime_ns}"
    return ""
