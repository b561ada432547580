"""`gpuaas why`."""

from __future__ import annotations

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import reasons as reasons_view
from reconciler.operations.why import why as why_operation


@command("why", "text", "json")
@click.argument("ref", metavar="REF", callback=check_ref)
def why(session: Session, ref: str) -> Reply:
    """Say why a resource is as it is: commit, author, rule, approver, evidence.

    The command shows, each with the file, line and commit that say so: who wanted the resource, who
    applied it, which rule placed it, who approved the node it is on, what the host reported, who
    has access and through what, and what a plan would do about it now. `gpuaas explain` says why it
    is on no other node.
    """
    found = why_operation.why(open_fleet(session.folder), ref)
    return Reply(result=found, lines=reasons_view.lines(found))
