"""The next moment at which time alone changes the plan of the same input."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from reconciler.model.moment import format_moment, parse_moment


def sooner(known: str, moments: Iterable[datetime | None], now: datetime) -> str:
    """The earliest of a known moment and these, of those that are still to come."""
    ahead = [moment for moment in moments if moment is not None and moment > now]
    before = parse_moment(known)
    # It was ahead when it was told, though its text has no parts of a second.
    ahead += [] if before is None else [before]
    return format_moment(min(ahead)) if ahead else ""
