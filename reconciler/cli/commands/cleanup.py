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
    """Places that could not be proved clean: try again, or vouch for them.

    What was measured, and what failed: gpuaas proof show.
    """


@command("retry", "text", "json", parent=cleanup)
@click.argument("place", metavar="NODE[/SLOT]", shell_complete=complete_node)
@lock_timeout
def retry(session: Session, place: str, lock_timeout: float) -> Reply:
    """Clean and prove again what is blocked on a slot or node, now.

    Nothing else is done, and nobody is asked: the release was agreed to when it began. The slot is
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
@click.option("--reason", required=True, metavar="TEXT", help="Why it is clean; it is kept.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@lock_timeout
def override(session: Session, place: str, reason: str, yes: bool, lock_timeout: float) -> Reply:
    """Free what is blocked on a slot or node by your word, in the place of a proof.

    Only an operator can. What was not proved is shown first, and a yes asked for. It is an event
    with your name, and the slot stays marked by it: in the list of slots, in its chain of proofs,
    and for everybody who is placed there later. No host is asked or changed.
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
