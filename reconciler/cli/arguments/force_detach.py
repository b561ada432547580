"""`--force-detach REF --reason TEXT`: both options are given, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from reconciler.cli.arguments.reason import LONGEST
from reconciler.cli.arguments.refs import check_ref
from reconciler.model.plan.force_detach import Forced

F = TypeVar("F", bound=Callable[..., object])


def force_detach(command: F) -> F:
    """The two options, `forced` and `reason`; neither without the other."""
    reason = click.option(
        "--reason",
        default="",
        metavar="TEXT",
        help="Reason for --force-detach, written to the audit log.",
    )
    forced = click.option(
        "--force-detach",
        "forced",
        metavar="REF",
        callback=check_ref,
        multiple=True,
        help="End processes of this allocation that keep a storage from being detached; may be"
        " repeated.",
    )
    return forced(reason(command))


def checked(forced: tuple[str, ...], reason: str) -> Forced:
    if bool(forced) != bool(reason.strip()):
        raise click.UsageError("--force-detach and --reason go together: give both or neither")
    if len(reason) > LONGEST or not reason.isprintable():
        raise click.UsageError(f"--reason is one line of 1 to {LONGEST} characters")
    return Forced(refs=forced, why=reason)
