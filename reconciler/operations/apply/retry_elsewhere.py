"""Retry elsewhere: an allocation that a host refused, without a trace, is placed on another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.model.plan.plan import Change, Plan
from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem, Severity
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.world import World
from reconciler.operations.apply.walk import Walk
from reconciler.operations.apply.wave.proofs import COMING
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.plan import plan_from
from reconciler.store.tables import queue

MOST = 5
"""So many hosts may refuse in one apply; the next one goes on."""

OF_A_NUMBER = "account_conflict"
"""What another try on the same host betters: it gets another number."""


@dataclass(frozen=True, slots=True)
class Tries:
    """All walks of one apply, as if they were one."""

    walks: tuple[Walk, ...]

    @property
    def outcomes(self) -> tuple[StepOutcome, ...]:
        return tuple(one for walk in self.walks for one in walk.outcomes.values())

    @property
    def settled(self) -> tuple[Change, ...]:
        return tuple({r: c for walk in self.walks for r, c in walk.settled.items()}.values())

    @property
    def interrupted(self) -> bool:
        return any(walk.interrupted for walk in self.walks)

    @property
    def gave_way(self) -> bool:
        return self.walks[0].gave_way

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems, but for those of what a later try has achieved."""
        found: list[Problem] = []
        stand: set[str] = set()
        for walk in reversed(self.walks):
            found[:0] = (_bettered(one) if one.ref in stand else one for one in walk.problems)
            stand |= {str(ref) for ref in walk.settled}
        return tuple(found)


def _bettered(problem: Problem) -> Problem:
    return replace(problem, severity=Severity.WARNING)


def try_elsewhere(first: Walk, options: PlanOptions) -> Tries:
    """Try the same change, for the same refs, in another place: nothing more was agreed to."""
    walks, tried = [first], defaultdict[Ref, set[str]](set)
    excused: set[tuple[Ref, str]] = set()
    while len(walks) <= MOST and (homeless := _homeless(walks[-1])):
        for ref, change in homeless.items():
            place = change.placement.node if change.placement else ""
            if _is_of_a_number(walks[-1], ref) and (ref, place) not in excused:
                excused.add((ref, place))
            else:
                tried[ref].add(place)
        plan, world = _plan_again(first, options, homeless, tried)
        if plan is None:
            break
        walk = first.again(plan, world)
        walk.run(saved=False)
        walks.append(walk)
    return Tries(tuple(walks))


def _homeless(walk: Walk) -> Mapping[Ref, Change]:
    """What was to be created, failed, and holds no place: none was taken, or it was released."""
    failed = {c.ref: c for c in walk.plan.active if c.action in COMING and c.ref in walk.failed}
    failed = {r: failed[r] for r in ALLOCATIONS.among(failed) if r not in walk.settled}
    if not failed or walk.interrupts.asked:
        return {}
    held = {claim.allocation_id for claim in walk.journal.world().claims}
    return {ref: change for ref, change in failed.items() if change.allocation_id not in held}


def _plan_again(
    first: Walk,
    options: PlanOptions,
    homeless: Mapping[Ref, Change],
    tried: Mapping[Ref, set[str]],
) -> tuple[Plan | None, World]:
    """A plan that tries only what was not tried, if there is one."""
    world = first.journal.world()
    refs: Sequence[Ref] = sorted(homeless)
    for _ in range(2):
        only = tuple(map(str, refs))
        plan = plan_from(first.fleet, first.desired, world, replace(options, only=only))
        if plan.waiting:
            first.journal.enter("wait", queue.join, plan.waiting)
        refs = [c.ref for c in plan.active if _is_another_try(c, homeless, tried)]
        if not refs:
            break
        if len(refs) == len(plan.active):
            return plan, world
    return None, world


def _is_another_try(
    change: Change, homeless: Mapping[Ref, Change], tried: Mapping[Ref, set[str]]
) -> bool:
    before = homeless.get(change.ref)
    if before is None or change.placement is None or change.action is not before.action:
        return False
    return change.placement.node not in tried.get(change.ref, ())


def _is_of_a_number(walk: Walk, ref: Ref) -> bool:
    codes: Iterable[str] = (
        o.problem.code for o in walk.outcomes.values() if o.step.ref == ref and o.problem
    )
    return OF_A_NUMBER in codes
