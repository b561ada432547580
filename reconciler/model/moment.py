"""Times as RFC 3339 text: read, write and compare, always in UTC. Nothing here asks the clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)

FIRST_YEAR, LAST_YEAR = 1000, 8999


@lru_cache(maxsize=65536)
def parse_moment(text: str) -> datetime | None:
    """An RFC 3339 time with a zone, in UTC; None if `text` is none.

    None too for one so near to the ends of all time that nothing can be counted from it.
    """
    if not _RFC3339.fullmatch(text):
        return None
    try:
        found = datetime.fromisoformat(text.upper().replace("Z", "+00:00")).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return found if FIRST_YEAR <= found.year <= LAST_YEAR else None


def format_moment(moment: datetime) -> str:
    """Seconds precision, zone `Z`: the one form in which times are stored."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


UNITS = ((172800, 86400, "d"), (7200, 3600, "h"), (120, 60, "min"), (0, 1, "s"))
"""From how many seconds on an age is told in which unit, and how many seconds that has."""


def format_age(seconds: float) -> str:
    """An age for people, in its largest whole unit: `41 s`, `22 min`, `3 h`, `19 d`."""
    whole = max(0, int(seconds))
    size, unit = _unit(whole)
    return f"{whole // size} {unit}"


def next_age(at: datetime, now: datetime) -> datetime:
    """When the age of `at`, or how long it is until then, is told otherwise than `now`."""
    seconds = (now - at).total_seconds()
    size, _ = _unit(int(abs(seconds)))
    steps = int(abs(seconds)) // size
    return at + timedelta(seconds=size * (steps + 1) if seconds >= 0 else -size * steps)


def _unit(whole: int) -> tuple[int, str]:
    return next((size, unit) for least, size, unit in UNITS if whole >= least)
