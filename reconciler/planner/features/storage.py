"""Storage in a plan: who may attach what, what happens to data, and what hosts still record."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from reconciler.kinds.contract import Context
from reconciler.kinds.node.spec import NodeSpec
from reconciler.model.host.capacity import Need
from reconciler.model.plan.plan import Plan, Step
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.spec.resource import Resource
from reconciler.planner.changes.held_work import hold_task
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.core.task import Task
from reconciler.planner.features.contract import Draft, Feature, Refused
from reconciler.planner.storage.attachment_rules import (
    after_detaching,
    attachments_of,
    begun_by,
    refusal,
    refuse_joins,
)
from reconciler.planner.storage.attachments import AttachmentLedger
from reconciler.planner.storage.reclaim import find_wipes, refuse_storage, with_data
from reconciler.planner.storage.stale_records import find_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Joins:
    """Volumes and who has them, while joins are let through one by one."""

    ledger: AttachmentLedger

    def located(self, need: Need) -> Need:
        return self.ledger.located(need)

    def refusal(
        self, difference: Difference, id: str = "", node: Resource[NodeSpec] | None = None
    ) -> Problem | None:
        return refusal(self.ledger, difference, id, node)

    def take(self, difference: Difference, id: str, node: Resource[NodeSpec]) -> None:
        self.ledger.take(difference, id, node)


class Storages(Feature):
    def adjust(
        self, differences: tuple[Difference, ...], request: PlanRequest
    ) -> tuple[Difference, ...]:
        return with_data(differences, request.world)

    def refuse(self, draft: Draft) -> Refused:
        return refuse_storage(draft.admitted, draft.judged, draft.request.world, draft.origins)

    def prepare(self, draft: Draft) -> Draft:
        renamed = {
            d.former: d.ref for d in draft.differences if d.former and d.ref not in draft.refused
        }
        ledger = AttachmentLedger(draft.context.desired, draft.request.world, renamed)
        refused = refuse_joins(draft.differences, draft.refused, ledger)
        joins = Joins(ledger=ledger)
        return replace(draft, reservations=(*draft.reservations, joins)).refusing(refused)

    def inform(self, draft: Draft, context: Context) -> Context:
        return replace(context, volumes=_ledger(draft).volumes)

    def work(self, draft: Draft) -> Draft:
        world, context = draft.request.world, draft.context
        busy = {one.ref for one in draft.everything}
        busy.update(ref for ref, task in draft.tasks.items() if task.early)
        words = [
            Task(difference=one.difference, steps=one.steps, facts=one.facts)
            for one in find_words(context.desired, world, busy)
        ]
        told = [one for one in words if hold_task(one, draft.situation)[1] is None]
        files = {one.ref: one.difference.file for one in told}
        draft = replace(draft, files={**draft.files, **files})
        return draft.doing([*find_wipes(draft.changed, context), *told])

    def waits(self, steps: Collection[Step]) -> Mapping[str, frozenset[str]]:
        return after_detaching(steps)

    def finish(self, plan: Plan, draft: Draft) -> Plan:
        attachments = attachments_of(_steps(plan), draft.request.world)
        volumes = begun_by(attachments, _ledger(draft))
        return replace(plan, attachments=attachments, volumes=volumes)


def _ledger(draft: Draft) -> AttachmentLedger:
    return next(one.ledger for one in draft.reservations if isinstance(one, Joins))


def _steps(plan: Plan) -> Iterator[Step]:
    return (step for wave in plan.waves for step in wave.steps)
