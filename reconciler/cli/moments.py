"""Options that are a time."""

from __future__ import annotations

from datetime import datetime

import click

from reconciler.model.moment import parse_moment


def as_moment(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """A click callback: a time with its zone."""
    moment = parse_moment(value) if value else None
    if value and moment is None:
        raise click.BadParameter(f"{value!r} is no time: write it as in 2026-11-28T04:00:00Z")
    return moment
