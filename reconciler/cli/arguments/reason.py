"""The check of `--reason`: why somebody asks for something, kept with what they asked for."""

from __future__ import annotations

import click

LONGEST = 256
"""As the schemas have it."""


def check_reason(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A click callback: one line that says something."""
    if not value.strip() or len(value) > LONGEST or not value.isprintable():
        raise click.UsageError(f"--reason is one line of 1 to {LONGEST} characters", ctx)
    return value
