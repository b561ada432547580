"""`slot list`: every slot, who holds it, or why it is not free."""

from __future__ import annotations

from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.inventory.stock import (
    Stock,
    slot_rows,
    take_stock,
)
from reconciler.operations.views import (
    SlotRow,
)
from reconciler.store.snapshot import read_world


def slots(fleet: Fleet) -> tuple[SlotRow, ...]:
    return slot_rows(stock_now(fleet))


def stock_now(fleet: Fleet) -> Stock:
    with without_collector(), fleet.reading() as database:
        return take_stock(fleet.settings, read_world(database), fleet.now())
