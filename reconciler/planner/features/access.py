"""Access in a plan: who may grant what, whose access ends, and which suspensions are in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.kinds.access.keys import next_change
from reconciler.model.moment import parse_moment
from reconciler.model.plan.plan import Change, Plan, Step
from reconciler.model.ref import Ref
from reconciler.planner.access.grants import refuse_grants
from reconciler.planner.access.revocations import name_revoked, tell_ends
from reconciler.planner.access.suspensions import in_force
from reconciler.planner.core.next_moment import sooner
from reconciler.planner.features.contract import Draft, Feature, Refused


class Access(Feature):
    def refuse(self, draft: Draft) -> Refused:
        world, now = draft.request.world, draft.request.now
        return refuse_grants(draft.admitted, draft.judged, world, draft.origins, now)

    def name(self, steps: list[Step], draft: Draft, former: Mapping[Ref, Ref]) -> list[Step]:
        return name_revoked(steps, draft.context, former)

    def tell(self, change: Change, ending: Mapping[Ref, Step], draft: Draft) -> Change:
        return tell_ends(change, ending, draft.request.world)

    def finish(self, plan: Plan, draft: Draft) -> Plan:
        now = draft.request.now
        suspended = tuple(in_force(draft.request.world.suspensions, now))
        ends = [next_change(draft.context.desired, now)]
        ends += [parse_moment(one.until) for one in suspended]
        return replace(plan, suspended=suspended, next_moment=sooner(plan.next_moment, ends, now))
