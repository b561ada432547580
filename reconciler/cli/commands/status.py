"""`gpuaas status`."""

from __future__ import annotations

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import status as status_view
from reconciler.operations import inspecting


@command("status", "text", "json")
@click.option("--project", default="", metavar="NAME", help="Only this project's allocations.")
def status(session: Session, project: str) -> Reply:
    """Show the fleet and its allocations.

    Read from the state alone: no host is asked, and the age of what hosts last said is shown.
    """
    found = inspecting.status(open_fleet(session.folder), project)
    return Reply(result=found, lines=status_view.lines(found, width=session.screen.width))
