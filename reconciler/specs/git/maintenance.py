"""Maintenance of a repository of our own: it stays small, whatever is fetched into it.

Each fetch leaves a few objects, and each force push some that nothing leads to any more. Once there
are many of them git packs what is reached, and drops what has not been reached for a day.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from reconciler.specs.git import git
from reconciler.specs.git.git import Refused

MOST_LOOSE, MOST_PACKS = 1000, 20
KEPT = "1.day.ago"
"""What was reached since then stays: somebody may be reading it still."""
KEPT_SECONDS = 24 * 3600
PACK_SECONDS = 600
LOCK_SECONDS = 60
"""Git holds a lock of a ref for a moment; one that is older was left by somebody who was killed."""

UNPACKED = Refused("source_unreadable", "see what git says of it; rounds go on without")


def maintain(bare: Path, stop: Callable[[], bool]) -> None:
    """Pack and prune. Raises ProblemError `interrupted` as soon as `stop` says so."""
    _drop_halves(bare / "objects/pack")
    if _has_grown(bare / "objects"):
        git.work(
            bare,
            *("-c", "gc.packRefs=false", "-c", f"gc.reflogExpire={KEPT}"),
            *("-c", f"gc.reflogExpireUnreachable={KEPT}"),
            *("gc", "--quiet", f"--prune={KEPT}"),
            refused=UNPACKED,
            seconds=PACK_SECONDS,
            stop=stop,
        )


def unlock(bare: Path) -> None:
    """Locks of refs and settings that a killed git has left, which keep every other one out."""
    for lock in (*bare.glob("*.lock"), *(bare / "refs").rglob("*.lock")):
        if lock.name != "shallow.lock" and _is_older(lock, LOCK_SECONDS):
            lock.unlink(missing_ok=True)


def _has_grown(objects: Path) -> bool:
    loose = sum(len(os.listdir(one)) for one in objects.glob("[0-9a-f][0-9a-f]"))
    return loose > MOST_LOOSE or sum(1 for _ in objects.glob("pack/*.pack")) > MOST_PACKS


def _drop_halves(packs: Path) -> None:
    """What a killed one has left half written, and git does not look for."""
    for half in packs.glob(".tmp-*"):
        if _is_older(half, KEPT_SECONDS):
            half.unlink(missing_ok=True)


def _is_older(path: Path, seconds: float) -> bool:
    """So is what was left before the clock was set back: nobody knows how old that is."""
    with suppress(OSError):
        return abs(time.time() - path.stat().st_mtime) > seconds
    return False
