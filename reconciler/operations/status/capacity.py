"""`capacity`: what is free for each SKU."""

from __future__ import annotations

from reconciler.operations.fleet import Fleet
from reconciler.operations.inventory.stock import (
    sku_rows,
)
from reconciler.operations.status.slot import stock_now
from reconciler.operations.views import (
    SkuRow,
)


def capacity(fleet: Fleet) -> tuple[SkuRow, ...]:
    return sku_rows(stock_now(fleet))
