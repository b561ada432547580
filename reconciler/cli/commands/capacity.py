"""`gpuaas capacity`."""

from __future__ import annotations

from reconciler.cli.command import Reply, Session, command
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import fleet as fleet_view
from reconciler.operations.status import capacity as capacity_operation


@command("capacity", "text", "json")
def capacity(session: Session) -> Reply:
    """Show what is free for each SKU.

    FREE counts the allocations that fit now; CLEAN those that fit once blocked slots are proved
    clean; WEEK those that fit when everything ending within seven days is gone as well.
    """
    rows = capacity_operation.capacity(open_fleet(session.folder))
    return Reply(result=rows, lines=fleet_view.capacity(rows, width=session.screen.width))
