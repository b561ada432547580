"""`gpuaas show`."""

from __future__ import annotations

from importlib import import_module

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import from_option, open_fleet
from reconciler.cli.views import shown as shown_view
from reconciler.cli.views import states as states_view
from reconciler.operations.references import ref_of
from reconciler.operations.show import show as show_operation
from reconciler.operations.views import Shown


@command("show", "text", "json")
@click.argument("ref", metavar="REF", callback=check_ref)
@click.option(
    "--states", "apart", is_flag=True, help="Only the four states, side by side in a table."
)
@from_option
def show(session: Session, ref: str, apart: bool, source: str) -> Reply:
    """Show everything known about one resource.

    The four states are shown apart: desired (git), recorded (last applied), observed (what hosts
    report) and execution (what was done about it); then claims, proofs and events. --from shows
    what is published about an allocation. --states shows a table with a row for each property: what
    git wants, what the host reports, what is being done, and what follows.
    """
    if apart and source:
        raise click.UsageError("what is published holds one state alone: leave --states or --from")
    if apart:
        told = import_module("reconciler.operations.show.states").states(
            open_fleet(session.folder), ref
        )
        return Reply(result=told, lines=states_view.lines(told, width=session.screen.width))
    if source:
        published = import_module("reconciler.operations.published.read")
        found: Shown = published.published_show(source, ref_of(ref))
    else:
        found = show_operation.show(open_fleet(session.folder), ref)
    return Reply(result=found, lines=shown_view.lines(found))
