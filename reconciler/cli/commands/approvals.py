"""`gpuaas approvals`."""

from __future__ import annotations

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import approvals as approvals_view
from reconciler.operations.approvals import list_approvals


@command("approvals", "text", "json")
def approvals(session: Session) -> Reply:
    """List what waits for somebody's leave, and what leave was given.

    Of a plan that is made now, as nobody is asked about it: each change that is held with its ID,
    what it is, why it is held and by whom it is. An ID is good for the change as it is; edited, it
    is another one. Exit 5 if anything is held.
    """
    found = list_approvals(open_fleet(session.folder))
    return Reply(
        code=Exit.HELD if found.held else Exit.DONE,
        result=found,
        lines=approvals_view.lines(found, width=session.screen.width),
    )
