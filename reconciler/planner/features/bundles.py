"""Bundles in a plan: what allocations may run where they are, and what hosts build for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reconciler.kinds.node.spec import NodeSpec
from reconciler.model.host.capacity import Need
from reconciler.model.plan.plan import Action, Step
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.planner.bundles.compatibility import refuse_runtimes, unfit, worded
from reconciler.planner.bundles.install import Staging, find_stagings, is_slow
from reconciler.planner.changes.held_work import Held, hold_task
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.task import Task
from reconciler.planner.features.contract import Draft, Feature


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Whether what an allocation names runs on a node; nothing of a node is used up by that."""

    desired: Desired
    world: World

    def located(self, need: Need) -> Need:
        return need

    def refusal(
        self, difference: Difference, id: str = "", node: Resource[NodeSpec] | None = None
    ) -> Problem | None:
        told = unfit(difference, node, self.desired, self.world) if node else None
        return worded(difference, told) if told else None

    def take(self, difference: Difference, id: str, node: Resource[NodeSpec]) -> None:
        pass


class Bundles(Feature):
    def prepare(self, draft: Draft) -> Draft:
        effective, world = draft.context.desired, draft.request.world
        refused = refuse_runtimes(draft.differences, effective, world, draft.refused)
        fit = Fit(desired=effective, world=world)
        return replace(draft, reservations=(*draft.reservations, fit)).refusing(refused)

    def work(self, draft: Draft) -> Draft:
        found = find_stagings(
            draft.context, draft.seats, draft.changed, draft.preparing, draft.drifts
        )
        tasks: list[Task] = []
        held: list[Held] = []
        for one in found.values():
            # What is held is told as git has it, what is done as it will be in force.
            wanted = _task(one, draft.situation.desired, draft.request.world)
            left, why = hold_task(wanted, draft.situation)
            if left is not None:
                doing = replace(one, steps=left.steps)
                tasks.append(_task(doing, draft.context.desired, draft.request.world))
            elif why is not None and wanted.ref not in draft.situation.refs:
                held.append(why)
        files = {difference.ref: difference.file for difference, _, _ in held}
        draft = replace(draft, files={**draft.files, **files})
        return draft.doing(_apart_from_removals(tasks, draft)).holding(held)

    def is_last(self, step: Step) -> bool:
        return is_slow(step)


def _task(one: Staging, desired: Desired, world: World) -> Task:
    """A bundle that nothing else changes about; or that git names no more, and hosts still have."""
    return Task(
        difference=Difference(
            ref=one.bundle,
            action=Action.REPAIR if one.only_repairs else Action.STAGE,
            resource=desired.resources.get(one.bundle),
            recorded=world.recorded.get(one.bundle),
        ),
        steps=one.steps,
        facts=one.facts,
    )


def _apart_from_removals(tasks: list[Task], draft: Draft) -> Iterator[Task]:
    """What is forgotten is by that line; what hosts still have of it goes by the next plan."""
    for one in tasks:
        changed = draft.changed.get(one.ref)
        if changed is None or changed.action is not Action.FORGET:
            yield one
