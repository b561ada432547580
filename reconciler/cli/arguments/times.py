"""Options that are a point in time or a length of time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import click

from reconciler.model.moment import parse_moment


def as_moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """A click callback: a time with its zone."""
    moment = parse_moment(value) if value else None
    if value and moment is None:
        raise click.BadParameter(f"{value!r} is no time: write it as in 2026-11-28T04:00:00Z")
    return moment


_DURATION = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def as_duration(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    """A click callback: a length of time in minutes, hours or days."""
    if not value:
        return None
    found = _DURATION.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no length of time: write it as in 30m, 24h or 7d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
