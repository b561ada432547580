"""`gpuaas slots`."""

from __future__ import annotations

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import fleet as fleet_view
from reconciler.operations import inspecting


@command("slots", "text", "json")
def slots(session: Session) -> Reply:
    """List slots: who holds them, or why they are not free.

    A slot is free again only after a proof that it was left clean.
    """
    rows = inspecting.slots(open_fleet(session.folder))
    return Reply(result=rows, lines=fleet_view.slots(rows, width=session.screen.width))
