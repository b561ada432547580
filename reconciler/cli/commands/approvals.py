"""`gpuaas approvals`."""

from __future__ import annotations

from dataclasses import replace

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.exit_codes import Exit, of_problems, worst
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import approvals as approvals_view
from reconciler.operations.approval.approvals import list_approvals


@command("approvals", "text", "json")
def approvals(session: Session) -> Reply:
    """List what waits for somebody's leave, and what leave was given.

    Of a plan that is made now, as nobody is asked about it: each change that is held with its ID,
    what it is, why it is held and by whom it is. An ID is good for the change as it is; edited, it
    is another one. Exit 5 if anything is held.
    """
    found = list_approvals(open_fleet(session.folder))
    held = Exit.HELD if found.held else Exit.DONE
    return Reply(
        code=worst([of_problems(found.problems), held]),
        problems=found.problems,
        result=replace(found, problems=()),
        lines=approvals_view.lines(found, width=session.screen.width),
    )
