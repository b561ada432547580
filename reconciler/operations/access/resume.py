"""The end of a suspension: access is given back, under the lock."""

from __future__ import annotations

from reconciler.model.problem import refuse
from reconciler.operations.access.suspension import (
    Progress,
    Suspended,
    SuspensionRequest,
    carry_out,
)
from reconciler.operations.access.suspension_scope import of_loop
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import writing
from reconciler.operations.person import insist_on_reason
from reconciler.operations.signals import Interrupts
from reconciler.specs.read.suggest import did_you_mean
from reconciler.store.tables import suspensions


def resume(
    fleet: Fleet, word: SuspensionRequest, on_progress: Progress, interrupts: Interrupts
) -> Suspended:
    """End a suspension now. Raises ProblemError `not_found` or `usage`."""
    insist_on_reason(word.reason)
    with writing(fleet, "resume") as journal:
        world = journal.world()
        scope = of_loop(word.scope) or word.scope
        one = next((s for s in world.suspensions if s.scope == scope), None)
        if one is None:
            known = [s.scope for s in world.suspensions]
            near = did_you_mean(word.scope, known)
            hint = f"{near} suspended now: {', '.join(known) or 'nothing is'}".strip()
            raise refuse("not_found", f"{word.scope} is not suspended", hint)
        with interrupts:
            journal.enter("resume", suspensions.end, one, word.reason)
            return carry_out(fleet, journal, one, on_progress, interrupts)
