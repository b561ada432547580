"""Nodes in a plan: hosts are prepared before anybody is placed on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reconciler.model.plan.plan import Action, Cause, Step
from reconciler.model.state.world import World
from reconciler.planner.admission import hold
from reconciler.planner.approval import fingerprint_of_preparation
from reconciler.planner.changes.text import prepare_facts
from reconciler.planner.changes.waves import after_preparing
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.task import Task
from reconciler.planner.features.contract import Draft, Feature
from reconciler.planner.nodes.prepare import Preparation, find_preparations


class Nodes(Feature):
    def prepare(self, draft: Draft) -> Draft:
        found = find_preparations(draft.context, draft.reaches)
        draft = draft.refusing(hold(found, draft.situation))
        return draft.doing(_task(one, draft.request.world) for one in found.values())

    def waits(self, steps: Collection[Step]) -> Mapping[str, frozenset[str]]:
        return after_preparing(steps)


def _task(one: Preparation, world: World) -> Task:
    return Task(
        difference=Difference(
            ref=one.resource.ref,
            action=Action.REPAIR if one.mends else Action.CHANGE,
            resource=one.resource,
            recorded=one.recorded,
        ),
        steps=one.steps,
        facts=prepare_facts(one.why, one.resource.ref.name, world),
        basis=one.basis,
        risk=one.risk,
        cause=Cause.RERENDERED if one.rerendered else None,
        early=True,
        fingerprint=fingerprint_of_preparation(one),
    )
