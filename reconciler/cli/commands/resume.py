"""`gpuaas resume`."""

from __future__ import annotations

import click

from reconciler.cli.arguments.lock_timeout import lock_timeout, open_to_write
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit, of_problems
from reconciler.cli.views import suspended as suspended_view
from reconciler.cli.views.progress import ProgressView
from reconciler.operations.access import resume as resume_operation
from reconciler.operations.access import suspension
from reconciler.operations.signals import Interrupts


@command("resume", "text", "json")
@click.argument("scope", metavar="SCOPE")
@click.option("--reason", required=True, metavar="TEXT", help="Reason, written to the audit log.")
@lock_timeout
def resume(session: Session, scope: str, reason: str, lock_timeout: float) -> Reply:
    """End a suspension.

    The people it shut out are let in again on every host that answers, if what was last applied
    still allows it.
    """
    word = suspension.SuspensionRequest(scope=scope, reason=reason)
    progress = ProgressView(session.screen)
    with progress as report:
        found = resume_operation.resume(
            open_to_write(session, lock_timeout), word, report, Interrupts(progress.wish)
        )
    code = Exit.INTERRUPTED if found.interrupted else of_problems(found.problems)
    return Reply(
        code=code,
        problems=found.problems,
        result=found,
        lines=suspended_view.lines(found, over=True),
    )


resume.writes = True
