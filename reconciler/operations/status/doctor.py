"""`doctor`: everything that is stuck, overdue or stale."""

from __future__ import annotations

from reconciler.model.symptom import Diagnosis
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.inventory.diagnosis_context import chart_of
from reconciler.operations.inventory.stock import (
    take_stock,
)
from reconciler.operations.inventory.sync import alarms
from reconciler.operations.liveness.diagnosis import diagnose_loop
from reconciler.operations.reconcile.holds import diagnose_holds
from reconciler.planner.diagnosis.rules import diagnose
from reconciler.store import queries
from reconciler.store.snapshot import read_world


def examine(fleet: Fleet) -> tuple[Diagnosis, ...]:
    """Everything that is stuck, overdue or stale, in the order in which somebody should care."""
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        stock = take_stock(fleet.settings, world, fleet.now())
        last = next(iter(queries.runs(database, 1)), None)
    found = diagnose(chart_of(fleet.state, world, stock, last, fleet.now()))
    held = tuple(alarms(fleet))
    more = tuple(diagnose_holds(fleet, world, {one.code for one in held}))
    alike = {f"the loop: {one.text}" for one in more}
    loop = (one for one in diagnose_loop(fleet) if one.text not in alike)
    return (*held, *more, *loop, *found)
