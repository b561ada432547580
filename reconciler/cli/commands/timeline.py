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
    "--logs", is_flag=True, help="Show the hosts' output of every phase, not only of failed ones."
)
@click.option(
    "--last",
    default=0,
    metavar="NUMBER",
    type=click.IntRange(0),
    help="Show only this many operations, the newest.",
)
def timeline(session: Session, ref: str, logs: bool, last: int) -> Reply:
    """Show what happened to a resource, phase by phase.

    Every operation is shown with its phases; every phase with its start, its duration, how it ended
    and, if it failed, the end of the host's output. An operation that is running shows when it last
    made progress, also while another gpuaas applies. The timeline starts at the first event,
    archived events included.
    """
    found = timeline_operation.timeline(open_fleet(session.folder), ref)
    shown = timeline_view.lines(found, logs=logs, last=last, width=session.screen.width)
    return Reply(result=found, lines=shown)
