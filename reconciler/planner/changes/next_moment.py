"""The next moment at which time alone changes the plan of the same input."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from reconciler.model.moment import format_moment, parse_moment


def sooner(known: str, moments: Iterable[datetime | None], now: datetime) -> str:
    """The earliest of a moment that is known and of these, as far as they are to come."""
    ahead = [moment for moment in (parse_moment(known), *moments) if moment and moment > now]
    return format_moment(min(ahead)) if ahead else ""
