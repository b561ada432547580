"""`gpuaas timeline`."""

from __future__ import annotations

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import timeline as timeline_view
from reconciler.operations.history import timeline as timeline_operation


@command("timeline", "text", "json")
@click.argument("ref", metavar="REF", callback=check_ref)
@click.option(
    "--logs", is_flag=True, help="What hosts said in every phase, not only in failed ones."
)
@click.option(
    "--last",
    default=0,
    metavar="NUMBER",
    type=click.IntRange(0),
    help="Only so many operations, the newest.",
)
def timeline(session: Session, ref: str, logs: bool, last: int) -> Reply:
    """Show what became of a resource, phase by phase.

    Each operation has its phases, and each of these its start, how long it took, how it ended and,
    where it failed, the end of what its host said. One that is under way tells when it last moved,
    also while another gpuaas applies. It reaches back to the first event, archived ones as well.
    """
    found = timeline_operation.timeline(open_fleet(session.folder), ref)
    shown = timeline_view.lines(found, logs=logs, last=last, width=session.screen.width)
    return Reply(result=found, lines=shown)
