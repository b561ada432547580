"""Restarts, written down before their hosts are asked: from which generation to which, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reconciler.model.plan.plan import Action, Change, Step
from reconciler.model.ref import Ref
from reconciler.model.state.event import EventType
from reconciler.store.transaction import EventDraft, Record

GENERATION = "spec.restart.generation"


def tell(record: Record, steps: Iterable[Step], changes: Mapping[Ref, Change]) -> None:
    """The reason is that of the spec, which whoever asked for it has committed."""
    begun = {step.ref for step in steps if "generation" in step.item}
    restarts = [changes[ref] for ref in sorted(begun) if ref in changes]
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
