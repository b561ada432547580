"""Turns: one run at a time works on a host, however many were begun.

A run whose control machine was cut off or killed works on to the end of what it was given.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import Iterator

from .paths import FOLDER, Refusal, Tree

LOCK = "/run/gpuaas-converge.lock"
PATIENCE_SECONDS, REST_SECONDS = 60.0, 0.1


@contextmanager
def turn(tree: Tree) -> Iterator[None]:
    """Nobody else works here meanwhile. Raises Refusal where an earlier run does not end."""
    lock = _open(tree)
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while not _is_ours(lock):
            if time.monotonic() > until:
                raise Refusal("host_busy", "an earlier run is still at work; nothing was touched")
            time.sleep(REST_SECONDS)
        yield
    finally:
        os.close(lock)


def _open(tree: Tree) -> int:
    """Of a whole host a file that tenants cannot open: whoever can open it could hold us up."""
    if not tree.whole_host:
        return os.open(".", FOLDER, dir_fd=tree.root)
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(lock, 0o600)
    return lock


def _is_ours(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
