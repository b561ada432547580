"""Restarts, written before their hosts are asked: from and to which generation, and why."""

from __future__ import annotations

from reconciler.model.plan.items.allocation import RestartItem
from reconciler.model.plan.plan import Action, Change
from reconciler.model.plan.work import WaveIntent
from reconciler.model.state.event import EventType
from reconciler.store.registry.contract import Table
from reconciler.store.transaction import EventDraft, Record

GENERATION = "spec.restart.generation"


def begin(record: Record, intent: WaveIntent) -> None:
    """Write the restart with the reason of the spec, which whoever asked for it has committed."""
    begun = {step.ref for step in intent.steps if isinstance(step.item, RestartItem)}
    restarts = [record.changes[ref] for ref in sorted(begun) if ref in record.changes]
    record.write(*(_entry(change) for change in restarts if change.action is Action.RESTART))


def _entry(change: Change) -> EventDraft:
    raised = {field.path: field for field in change.fields}.get(GENERATION)
    asked = ((change.normal or {}).get("spec") or {}).get("restart") or {}
    return EventDraft(
        type=EventType.RESTARTING,
        ref=change.ref,
        before={"generation": (raised.before or 0) if raised else 0},
        after={"generation": asked.get("generation", 0)},
        reason=str(asked.get("reason", "")),
    )


TABLE = Table(begin=begin)
