"""`gpuaas show`."""

from __future__ import annotations

import click

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.refs import check_ref
from reconciler.cli.views import shown as shown_view
from reconciler.operations import explaining


@command("show", "text", "json")
@click.argument("ref", metavar="REF", callback=check_ref)
def show(session: Session, ref: str) -> Reply:
    """Show everything known about one resource.

    Its four states stand apart: desired (git), recorded (last applied), observed (what hosts
    say), execution (what was done about it); then claims, proofs and events.
    """
    found = explaining.show(open_fleet(session.folder), ref)
    return Reply(result=found, lines=shown_view.lines(found))
