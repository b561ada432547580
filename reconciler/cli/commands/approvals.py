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
    """List changes that wait for approval, and approvals in force.

    A plan is made now, as the loop would make it. Every change that it holds is listed with its ID,
    what it is, why it is held and who wrote it. An ID is valid for the change as it is: an edited
    change gets another ID. Exits 5 if anything is held.
    """
    found = list_approvals(open_fleet(session.folder))
    held = Exit.HELD if found.held else Exit.DONE
    return Reply(
        code=worst([of_problems(found.problems), held]),
        problems=found.problems,
        result=replace(found, problems=()),
        lines=approvals_view.lines(found, width=session.screen.width),
    )
