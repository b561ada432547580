"""Lifecycle in a plan: evacuations, expired leases, quarantines, and stale files."""

from __future__ import annotations

from dataclasses import replace

from reconciler.model.plan.plan import Action, Plan
from reconciler.planner.changes.stale import find_stale
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.next_moment import sooner
from reconciler.planner.core.policy import policy_of
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.diff.unsound import as_judged
from reconciler.planner.features.contract import Draft, Feature, Refused
from reconciler.planner.lifecycle.evacuation import with_evacuations
from reconciler.planner.lifecycle.expiry import horizon, with_ends
from reconciler.planner.lifecycle.lease import ends_of_waits, refuse_leases


class Lifecycle(Feature):
    def adjust(
        self, differences: tuple[Difference, ...], request: PlanRequest
    ) -> tuple[Difference, ...]:
        desired, world = request.desired, request.world
        found = with_evacuations(differences, desired, world)
        return with_ends(found, as_judged(desired, world, found), world, request.now)

    def refuse(self, draft: Draft) -> Refused:
        request = draft.request
        return refuse_leases(
            draft.admitted, draft.judged, request.world, request.now, request.leases_from
        )

    def work(self, draft: Draft) -> Draft:
        return replace(draft, stale=find_stale(draft.context, draft.changed))

    def finish(self, plan: Plan, draft: Draft) -> Plan:
        """What ends soon, but for what this plan ends or takes back."""
        request, world = draft.request, draft.request.world
        turned = {c.ref for c in plan.changes if c.action in (Action.RELEASE, Action.RESTORE)}
        ahead = horizon(world, policy_of(draft.context.desired, world).lease, request.now)
        moments = (*ahead.moments, *ends_of_waits(request.desired, world))
        return replace(
            plan,
            ends=tuple(end for end in ahead.ends if end.ref not in turned),
            next_moment=sooner(plan.next_moment, moments, request.now),
        )
