"""Suspensions that come during an apply: they count from then on, before all else.

The plan is made again as of its own moment, with what is suspended by now: whatever is still to be
done is done so. What hosts were given before is put right as soon as each of them is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from datetime import datetime

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.plan import Plan, Step, Wave
from reconciler.model.problem import Problem, Severity
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Suspension, World
from reconciler.operations.apply.revocation import Revocations, suspended_on
from reconciler.operations.fleet import Fleet
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.plan import plan_from
from reconciler.store.tables import suspensions


@dataclass(slots=True, kw_only=True)
class SuspensionWatch:
    """Watches for suspensions during an apply.

    `known` is what the plan knows of. `touched` are nodes of this run, `busy` those at work now,
    `due` those on which something may stand that was made before a suspension was known.
    `unplanned` is since when there is a suspension that the plan did not know, by version of the
    state.
    """

    revocations: Revocations
    known: tuple[Suspension, ...]
    planned: tuple[Suspension, ...] = field(init=False)
    version: int = -1
    unplanned: tuple[int, str] = (-1, "")
    touched: set[str] = field(default_factory=set)
    busy: dict[str, set[str]] = field(default_factory=dict)
    due: set[str] = field(default_factory=set)
    overtaken: bool = False

    def __post_init__(self) -> None:
        self.planned = self.known

    def moment_of_record(self, now: datetime) -> str:
        """When what is recorded now was decided: no later than a word that the plan did not know.

        Whoever was let in by its steps is then named as long as they may be inside.
        """
        journal = self.revocations.journal
        if (version := journal.version()) != self.unplanned[0]:
            words = set(journal.read(suspensions.read_suspensions)) - set(self.planned)
            self.unplanned = version, min((one.since for one in words), default="")
        return min(filter(None, [format_moment(now), self.unplanned[1]]))

    def begin_wave(self, steps: Iterable[Step]) -> None:
        for step in steps:
            self.busy.setdefault(step.node, set()).add(step.id)
            self.touched.add(step.node)

    def finish(self, steps: Iterable[Step]) -> None:
        """These steps have ended; a node is free when all of its own have."""
        for step in steps:
            left = self.busy.get(step.node, set())
            left.discard(step.id)
            if not left:
                self.busy.pop(step.node, None)

    def note_recorded(self, nodes: Iterable[str]) -> None:
        """What was just recorded may have been made before a suspension was known."""
        if self.overtaken:
            self.due.update(nodes)

    def news(self) -> tuple[Suspension, ...] | None:
        """All suspensions, if they differ from those known."""
        journal = self.revocations.journal
        if (version := journal.version()) == self.version:
            return None
        self.version = version
        if (now := journal.read(suspensions.read_suspensions)) == self.known:
            return None
        self.known, self.overtaken = now, True
        self.due |= self.touched
        return now

    def carry(self) -> tuple[Problem, ...]:
        """Shut out whoever is suspended on nodes that are due and free."""
        free = self.due - self.busy.keys()
        if not free:
            return ()
        self.due -= free
        return self.revocations.carry(lambda world: suspended_on(world, free)).problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Revised:
    """The plan with the remaining work as it is to be done now, and what is left out."""

    plan: Plan
    left_out: frozenset[Ref]
    problems: tuple[Problem, ...]


def plan_again(
    fleet: Fleet, plan: Plan, desired: Desired, world: World, options: PlanOptions
) -> Plan:
    """The same plan, of the same moment and input, except for the suspensions."""
    at = parse_moment(plan.made_at) or fleet.now()
    return plan_from(replace(fleet, now=lambda: at), desired, world, options)


def revise(plan: Plan, fresh: Plan, at: int) -> Revised:
    """`plan` with its waves from the one at `at` on as `fresh` has them; none is added to.

    Consent was given to what was shown, so a step that `fresh` has not is left out, with all that
    is still to be done of its ref; but what is begun of a ref is brought to its end.
    """
    begun = {step.ref for wave in plan.waves[:at] for step in wave.steps}
    steps = {step.id: step for step in plan.steps if step.ref in begun}
    steps |= {step.id: step for step in fresh.steps}
    changes = {change.ref: change for change in fresh.active}
    ahead = plan.waves[at:]
    left_out = frozenset(s.ref for wave in ahead for s in wave.steps if s.id not in steps)
    waves = [Wave(number=wave.number, steps=_kept(wave.steps, steps, left_out)) for wave in ahead]
    told = [
        # What is begun is recorded as what it was made from, so that the rest is seen to be due.
        fresh_one if fresh_one.action is one.action and one.ref not in begun else one
        for one in plan.changes
        for fresh_one in (changes.get(one.ref, one),)
    ]
    revised = replace(plan, waves=(*plan.waves[:at], *waves), changes=tuple(told))
    return Revised(
        plan=revised, left_out=left_out, problems=tuple(map(_left_out, sorted(left_out)))
    )


def _kept(
    steps: Sequence[Step], fresh: dict[str, Step], left_out: frozenset[Ref]
) -> tuple[Step, ...]:
    return tuple(fresh[step.id] for step in steps if step.ref not in left_out)


def _left_out(ref: Ref) -> Problem:
    return Problem(
        code="suspended_meanwhile",
        message=f"{ref}: what was still to be done is not, for something was suspended meanwhile",
        hint="look at what is to be done now: gpuaas plan",
        ref=str(ref),
        severity=Severity.WARNING,
    )
