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
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is shown everywhere.")
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    callback=as_duration,
    help="It ends by itself after that, as in 30m, 24h or 7d.",
)
@click.option(
    "--until",
    metavar="TIME",
    callback=as_moment,
    help="It ends by itself then, as in 2026-12-24T12:00:00Z.",
)
@lock_timeout
def suspend(
    session: Session, scope: str, reason: str, lock_timeout: float, **end: Unpack[SuspendArguments]
) -> Reply:
    """Take a node, user or project out of use, now.

    SCOPE is node/NAME, user/NAME, project/NAME or all. A person or a project is shut out on every
    host before this ends, and its sessions with it; their allocations go on. A node takes nobody
    new, and with all none does. No spec is needed, or changed. It is an event with its author.

    With loop, or loop/ before a project, a node or any other ref, nobody is shut out: plans that
    nobody is asked about leave it alone, but for what takes access away.
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
