"""The contract of a feature: where it takes part in a plan, and the draft it works on.

A plan is made in this order: adjust, refuse, prepare, place, work, finish. Each feature says what
it adds at each of these; one that says nothing takes no part there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

from reconciler.kinds.contract import Context
from reconciler.model.plan.drift import Drift
from reconciler.model.plan.plan import Change, Plan, Step
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.planner.changes.held_work import Held
from reconciler.planner.changes.stale import Stale
from reconciler.planner.context import Situation
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.core.seat import Seat, Unseated
from reconciler.planner.core.task import Task
from reconciler.planner.placement.reservation import Reservation

Refused = Mapping[Ref, Problem]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A plan in the making: all that is settled about it so far.

    `everything` are the differences of the whole fleet, `differences` those that were asked for.
    `admitted` are those among them that no rule of admission refuses, and `judged` is what limits
    are read from. `context` knows what will be in force by all that is `refused` up to now.
    `reaches` says whether a line about a ref, which follows from others, is asked for.
    `files` are where documents stand whose authors the lines will name.
    """

    request: PlanRequest
    everything: tuple[Difference, ...]
    differences: tuple[Difference, ...]
    admitted: Sequence[Difference]
    judged: Desired
    origins: Mapping[Ref, Origin]
    situation: Situation
    context: Context
    reaches: Callable[[Ref], bool]
    refused: Refused = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    seats: Mapping[Ref, Seat | Unseated] = field(default_factory=dict)
    stale: Mapping[Ref, Stale] = field(default_factory=dict)
    tasks: Mapping[Ref, Task] = field(default_factory=dict)
    drifts: tuple[Drift, ...] = ()
    held: tuple[Held, ...] = ()
    files: Mapping[Ref, str] = field(default_factory=dict)

    @cached_property
    def changed(self) -> Mapping[Ref, Difference]:
        """The differences that are carried out, as far as nothing refuses them yet."""
        return {d.ref: d for d in self.differences if d.ref not in self.refused}

    @cached_property
    def preparing(self) -> Collection[Ref]:
        """Hosts that this plan makes ready before anybody is placed on them."""
        return frozenset(
            ref for ref, task in self.tasks.items() if task.early and ref not in self.refused
        )

    def refusing(self, more: Refused) -> Draft:
        return replace(self, refused={**self.refused, **more}) if more else self

    def doing(self, tasks: Iterable[Task]) -> Draft:
        more = {task.ref: task for task in tasks}
        return replace(self, tasks={**self.tasks, **more}) if more else self

    def holding(self, held: Iterable[Held]) -> Draft:
        return replace(self, held=(*self.held, *held))


class Feature:
    """The base of a feature, which takes part in nothing: a feature overrides where it does.

    None changes what it is given.
    """

    def adjust(
        self, differences: tuple[Difference, ...], request: PlanRequest
    ) -> tuple[Difference, ...]:
        """The differences, adjusted to this moment and to what is on hosts."""
        return differences

    def refuse(self, draft: Draft) -> Refused:
        """Problems of documents that ask for what is not allowed, among all that was admitted."""
        return {}

    def prepare(self, draft: Draft) -> Draft:
        """What is decided before placement: hosts to prepare, conflicts, reservations."""
        return draft

    def inform(self, draft: Draft, context: Context) -> Context:
        """What kinds may know once everybody has their place."""
        return context

    def work(self, draft: Draft) -> Draft:
        """The work on hosts, from everything that is carried out."""
        return draft

    def name(self, steps: list[Step], draft: Draft, former: Mapping[Ref, Ref]) -> list[Step]:
        """The steps, with what a person is told by each; `former` maps refs to former ones."""
        return steps

    def waits(self, steps: Collection[Step]) -> Mapping[str, frozenset[str]]:
        """Steps by id, and those whose end each waits for."""
        return {}

    def is_last(self, step: Step) -> bool:
        """Whether a step waits for everything else, and nobody waits for it."""
        return False

    def tell(self, change: Change, ending: Mapping[Ref, Step], draft: Draft) -> Change:
        """The change, saying what it means for this feature; `ending` are steps that shut out."""
        return change

    def finish(self, plan: Plan, draft: Draft) -> Plan:
        """The plan, with what is reported or recorded of this feature beside its changes."""
        return plan
