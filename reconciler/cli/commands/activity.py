"""`gpuaas activity`."""

from __future__ import annotations

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import timeline as timeline_view
from reconciler.operations.history import activity as activity_operation


@command("activity", "text", "json")
@click.option(
    "--project", default="", metavar="NAME", help="Only operations on resources of this project."
)
@click.option(
    "--last",
    default=20,
    show_default=True,
    metavar="NUMBER",
    type=click.IntRange(1, 1000),
    help="Number of operations.",
)
def activity(session: Session, project: str, last: int) -> Reply:
    """Show recent operations: who did what, and how it went.

    Each line is one operation, the newest first. `gpuaas timeline REF` shows its phases, `gpuaas
    events` the audit log.
    """
    found = activity_operation.activity(open_fleet(session.folder), last, project)
    return Reply(result=found, lines=timeline_view.activity(found, width=session.screen.width))
