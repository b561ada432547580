"""`gpuaas explain`."""

from __future__ import annotations

import click

from reconciler.cli.arguments.refs import check_ref
from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import explained as explained_view
from reconciler.operations.show import explain as explain_operation


@command("explain", "text", "json")
@click.argument("ref", metavar="REF", callback=check_ref)
def explain(session: Session, ref: str) -> Reply:
    """Say for every node why it can or cannot take an allocation.

    Nodes that fit come first, the best one first; every other node shows the first rule that
    refused it. All other allocations are where the plan places them. Exits 3 if the allocation is
    blocked.
    """
    found = explain_operation.explain(open_fleet(session.folder), ref)
    return Reply(
        code=Exit.BLOCKED if found.problem is not None else Exit.DONE,
        problems=(found.problem,) if found.problem is not None else (),
        result=found,
        lines=explained_view.lines(found, width=session.screen.width),
    )
