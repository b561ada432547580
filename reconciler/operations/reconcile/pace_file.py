"""The pace of a loop outlives it: kept beside the state, lost without harm, good for one boot."""

from __future__ import annotations

import json
from pathlib import Path

from reconciler.model.codec import decode, encode
from reconciler.operations.reconcile.pace import Pace
from reconciler.operations.wiring import Fleet

SPACE, KEY = "loop", "pace"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_pace(fleet: Fleet) -> Pace:
    with fleet.cache() as cache:
        row = cache.get_many(SPACE, [KEY]).get(KEY)
    try:
        kept = json.loads(row) if row else {}
        return decode(Pace, kept["pace"]) if kept.get("boot") == _boot() else Pace()
    except (ValueError, TypeError, KeyError, AttributeError):
        return Pace()


def keep_pace(fleet: Fleet, pace: Pace) -> None:
    with fleet.cache() as cache:
        cache.put_many(SPACE, {KEY: json.dumps({"boot": _boot(), "pace": encode(pace)})})


def _boot() -> str:
    """Times since one boot mean nothing in another."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
