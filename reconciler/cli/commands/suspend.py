"""`gpuaas suspend`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypedDict, Unpack

import click

from reconciler.cli.arguments.lock_timeout import lock_timeout, open_to_write
from reconciler.cli.arguments.times import as_duration, as_moment
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit, of_problems
from reconciler.cli.views import suspended as suspended_view
from reconciler.cli.views.progress import ProgressView
from reconciler.operations.access import suspend as suspend_operation
from reconciler.operations.access import suspension
from reconciler.operations.signals import Interrupts


class SuspendArguments(TypedDict):
    duration: timedelta | None
    until: datetime | None


@command("suspend", "text", "json")
@click.argument("scope", metavar="SCOPE")
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    help="Reason, shown wherever the suspension is listed.",
)
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    callback=as_duration,
    help="End the suspension after this time, such as 30m, 24h or 7d.",
)
@click.option(
    "--until",
    metavar="TIME",
    callback=as_moment,
    help="End the suspension at this time, such as 2026-12-24T12:00:00Z.",
)
@lock_timeout
def suspend(
    session: Session, scope: str, reason: str, lock_timeout: float, **end: Unpack[SuspendArguments]
) -> Reply:
    """Take a node, user or project out of use, now.

    SCOPE is node/NAME, user/NAME, project/NAME or all. A user or a project is shut out of every
    host, and their sessions are ended, before this command ends; their allocations keep running. A
    node gets no new allocations; with all, no node does. No spec is needed or changed. The
    suspension is an event with its author.

    With loop, or loop/ before a project, a node or any other ref, nobody is shut out: plans that
    run without approval leave it alone, except for changes that take access away.
    """
    duration, until = end["duration"], end["until"]
    if duration and until:
        raise click.UsageError("--for and --until say the same: give one of them")
    fleet = open_to_write(session, lock_timeout)
    until = fleet.now() + duration if duration else until
    word = suspension.SuspensionRequest(scope=scope, reason=reason, until=until)
    progress = ProgressView(session.screen)
    with progress as report:
        found = suspend_operation.suspend(fleet, word, report, Interrupts(progress.wish))
    code = Exit.INTERRUPTED if found.interrupted else of_problems(found.problems)
    return Reply(
        code=code, problems=found.problems, result=found, lines=suspended_view.lines(found)
    )


suspend.writes = True
