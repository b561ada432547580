"""`gpuaas status`."""

from __future__ import annotations

from importlib import import_module

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import from_option, open_fleet
from reconciler.cli.views import status as status_view
from reconciler.operations import inspecting
from reconciler.operations.views import Status
from reconciler.operations.wiring import os_login, utc_now


@command("status", "text", "json")
@click.option("--project", default="", metavar="NAME", help="Only this project's allocations.")
@click.option(
    "--mine", is_flag=True, help="Only what you own or have access to, and how to get in."
)
@from_option
def status(session: Session, project: str, mine: bool, source: str) -> Reply:
    """Show the fleet and its allocations.

    Read from the state alone: no host is asked, and the age of what hosts last said is shown.
    With --from it is read from what is published, which tells of allocations alone.
    """
    login = os_login() if mine else ""
    if source:
        found = _published(source, project, login)
    else:
        found = inspecting.status(open_fleet(session.folder), project, login)
    shown = status_view.lines(found, width=session.screen.width, ways=mine)
    return Reply(result=found, lines=shown)


def _published(source: str, project: str, login: str) -> Status:
    """Loads what checks foreign files only where one is read."""
    published = import_module("reconciler.operations.published")
    found: Status = published.published_status(source, utc_now(), project, login)
    return found
