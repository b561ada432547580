"""`--lock-timeout`: how long a command that writes waits for another one that does."""

from __future__ import annotations

import re
from dataclasses import replace

import click

from reconciler.cli.command import Session
from reconciler.cli.fleet import open_fleet
from reconciler.cli.text import line
from reconciler.model.state.lock import LockPatience
from reconciler.operations.fleet import Fleet

DURATION = re.compile(r"(?=.)(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?", re.ASCII)
SECONDS = (3600, 60, 1)
ROUND_SECONDS = 60.0
"""A round of the loop comes by itself and is short: nobody is refused for one that just is."""


def as_seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A click callback: `90s`, `2m`, `1h30m`, or `0`, as seconds."""
    found = DURATION.fullmatch("0s" if value == "0" else value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no duration: write it as in 30s, 2m or 1h30m")
    return float(sum(int(n or 0) * each for n, each in zip(found.groups(), SECONDS, strict=True)))


lock_timeout = click.option(
    "--lock-timeout",
    metavar="DURATION",
    callback=as_seconds,
    default="0s",
    show_default=True,
    help="Wait this long for another command that writes, such as 30s or 2m.",
)


def open_to_write(session: Session, seconds: float) -> Fleet:
    """The fleet, with patience for whoever writes; the person is told for whom."""

    def tell(holder: str) -> None:
        session.screen.tell([line(f"waiting for {holder}", hang=2)])

    patience = LockPatience(seconds=seconds, of_a_round=ROUND_SECONDS, tell=tell)
    return replace(open_fleet(session.folder), patience=patience)
