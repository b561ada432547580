"""The context of a diagnosis: what the store and running processes show."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from reconciler.model.plan.lifecycle import RunState
from reconciler.model.state.world import World
from reconciler.operations.inventory.stock import Stock
from reconciler.planner.diagnosis.context import Chart, RunNow
from reconciler.store.file.lock import holder, is_stopped
from reconciler.store.progress import read_progress
from reconciler.store.queries import Run


def chart_of(state: Path, world: World, stock: Stock, last: Run | None, now: datetime) -> Chart:
    who = holder(state / "lock")
    return Chart(
        world=world,
        offers=stock.offers,
        now=now,
        run=_run_now(state, last),
        stopped=who if who is not None and is_stopped(who.pid) else None,
    )


def _run_now(state: Path, last: Run | None) -> RunNow | None:
    if last is None:
        return None
    living = last.state is RunState.RUNNING and holder(state / "lock") is not None
    under = read_progress(state) if living else None
    ticks = under.ticks.values() if under is not None and under.run == last.id else ()
    moments = [at for phases in ticks for at in phases.values()]
    return RunNow(
        id=last.id,
        state=last.state,
        moved=max((last.progress, *moments)),
        problem=last.problem,
        living=living,
    )
