"""`gpuaas slot`."""

from __future__ import annotations

from reconciler.cli.command import Reply, Session, command, group
from reconciler.cli.fleet import open_fleet
from reconciler.cli.views import fleet as fleet_view
from reconciler.operations.status import slot as slot_operation


@group("slot")
def slot() -> None:
    """Slots: the parts of nodes that allocations get.

    Slots are written in the file of their node and approved with it.
    """


@command("list", "text", "json", parent=slot)
def list_slots(session: Session) -> Reply:
    """List slots: who holds them, or why they are not free.

    A slot is free again only after a proof that it was cleaned.
    """
    rows = slot_operation.slots(open_fleet(session.folder))
    return Reply(result=rows, lines=fleet_view.slots(rows, width=session.screen.width))
