"""`gpuaas nodes`."""

from __future__ import annotations

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import fleet as fleet_view
from reconciler.operations import inspecting


@command("nodes", "text", "json")
def nodes(session: Session) -> Reply:
    """List nodes: what they are and when they last answered.

    POSTURE is what may be placed there now; ADMIN is what its spec says, SOURCE whether a real
    host answered or a labelled stand-in.
    """
    rows = inspecting.nodes(open_fleet(session.folder))
    return Reply(result=rows, lines=fleet_view.nodes(rows, width=session.screen.width))
