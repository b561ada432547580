"""`gpuaas cleanup`."""

from __future__ import annotations

import click

from reconciler.cli.arguments.lock_timeout import lock_timeout, open_to_write
from reconciler.cli.arguments.refs import complete_node
from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.confirm import agreement
from reconciler.cli.exit_codes import Exit, of_problems
from reconciler.cli.views import cleaned
from reconciler.cli.views.progress import ProgressView
from reconciler.operations.allocation import cleanup as cleanup_operation
from reconciler.operations.allocation import proof
from reconciler.operations.signals import Interrupts

QUESTION = "Free it without a proof, by your word?"


@group("cleanup")
def cleanup() -> None:
    """Slots that could not be proved clean: try again, or override the proof.

    `gpuaas proof show` shows what was measured and what failed.
    """


@command("retry", "text", "json", parent=cleanup)
@click.argument("place", metavar="NODE[/SLOT]", shell_complete=complete_node)
@lock_timeout
def retry(session: Session, place: str, lock_timeout: float) -> Reply:
    """Clean a blocked slot or node again, and prove it, now.

    Nothing else is done and nobody is asked: the release was approved when it began. The slot is
    free as soon as a proof passes.
    """
    progress = ProgressView(session.screen)
    with progress as report:
        found = cleanup_operation.retry(
            open_to_write(session, lock_timeout),
            proof.place_of(place),
            report,
            Interrupts(progress.wish),
        )
    code = Exit.INTERRUPTED if found.interrupted else of_problems(found.problems)
    return Reply(code=code, problems=found.problems, result=found, lines=cleaned.retried(found))


@command("override", "text", "json", parent=cleanup)
@click.argument("place", metavar="NODE[/SLOT]", shell_complete=complete_node)
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    help="Why the slot is clean; written to the audit log.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@lock_timeout
def override(session: Session, place: str, reason: str, yes: bool, lock_timeout: float) -> Reply:
    """Free a blocked slot or node without a proof, on your responsibility.

    Only operators may do this. What was not proved is shown first, and you are asked to confirm.
    The override is an event with your name, and the slot stays marked: in the list of slots, in its
    chain of proofs, and for everybody placed there later. No host is asked or changed.
    """
    ask = agreement(session, cleaned.unproved, QUESTION, yes=yes)
    found = cleanup_operation.override(
        open_to_write(session, lock_timeout), proof.place_of(place), reason, ask
    )
    return Reply(
        code=of_problems(found.problems),
        problems=found.problems,
        result=found,
        lines=cleaned.vouched(found),
    )


retry.writes = override.writes = True
