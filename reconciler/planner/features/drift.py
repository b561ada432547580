"""Drift in a plan: differences are repaired with the work that is due, else reported."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from reconciler.model.moment import parse_moment
from reconciler.model.plan.drift import Drift
from reconciler.model.plan.plan import Change, Plan
from reconciler.model.ref import Ref
from reconciler.planner.changes.held_work import hold_stale
from reconciler.planner.changes.repair import with_repairs
from reconciler.planner.changes.stale import MOVING
from reconciler.planner.core.next_moment import sooner
from reconciler.planner.core.policy import acceptances, in_force
from reconciler.planner.drift.detect import drifts
from reconciler.planner.drift.notes import notes_of
from reconciler.planner.features.contract import Draft, Feature


class Drifted(Feature):
    def work(self, draft: Draft) -> Draft:
        request, context = draft.request, draft.context
        found = drifts(context.desired, request.world, request.now)
        stale = with_repairs(draft.stale, found, context, draft.changed)
        stale, held = hold_stale(stale, draft.situation)
        files = {one.resource.ref: one.resource.file for one in stale.values()}
        files |= {difference.ref: difference.file for difference, _, _ in held}
        draft = replace(draft, drifts=found, stale=stale, files={**draft.files, **files})
        return draft.holding(held)

    def finish(self, plan: Plan, draft: Draft) -> Plan:
        world, now = draft.request.world, draft.request.now
        lenient = in_force(acceptances(draft.context.desired, world), now)
        ends = [parse_moment(one.until) for one in lenient]
        return replace(
            plan,
            notes=tuple(notes_of(*_untold(draft.drifts, plan.changes))),
            next_moment=sooner(plan.next_moment, ends, now),
        )


def _untold(
    found: Iterable[Drift], changes: Iterable[Change]
) -> tuple[Iterable[Drift], Collection[Ref]]:
    """What is left to tell of, and the refs of which the plan puts right what it can.

    Of what leaves nothing is told beside its line.
    """
    active = {change.ref: change for change in changes if change.problem is None}
    leaving = {ref for ref, change in active.items() if change.action in MOVING}
    return (one for one in found if one.ref not in leaving), active.keys()
