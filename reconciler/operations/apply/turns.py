"""Turns: an apply gives way to a waiting command, then continues with what was agreed.

Between two waves nothing is begun that is not written down, so another run may take its turn there.
What it changes is seen: the rest is planned anew, from the specs and the state as they are by then.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace

from reconciler.model.plan.plan import Change, Plan
from reconciler.model.plan.work import StepOutcome
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.lock import LockPatience
from reconciler.model.state.world import World
from reconciler.operations.apply.consent import changed_meanwhile, is_agreed, stands
from reconciler.operations.apply.retry_elsewhere import Tries
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import writing
from reconciler.operations.signals import Interrupts
from reconciler.store.file.lock import PAUSE, holder, want
from reconciler.store.journal import Journal

COURTESY, BETWEEN = 1.5, 0.5
"""Seconds in which whoever waits for the lock takes it, who asks more often than that; and seconds

that lie between the two times that a command takes it, to show a plan and to carry it out.
"""

PATIENCE = 600.0
"""Seconds that another one may take for their turn, unless more were asked for."""

MOST = 3
"""So many plans are made of the rest until one is of nothing else."""

Make = Callable[[tuple[str, ...]], Plan]


@dataclass(frozen=True, slots=True)
class Turns:
    """All turns of one apply, as if they were one.

    `shown` is the plan that was agreed to; `others` are changes of it that somebody else has made,
    and `told` says of which ones nothing more is done, and why.
    """

    shown: Plan
    tries: tuple[Tries, ...] = ()
    others: tuple[Change, ...] = ()
    told: Mapping[Ref, Problem] = field(default_factory=dict)
    failure: tuple[Problem, ...] = ()
    stopped: bool = False
    over: bool = False

    @property
    def outcomes(self) -> tuple[StepOutcome, ...]:
        return tuple(one for each in self.tries for one in each.outcomes)

    @property
    def settled(self) -> tuple[Change, ...]:
        """Changes that are done, by whomever."""
        done = {one.ref: one for each in self.tries for one in each.settled}
        return tuple((done | {one.ref: one for one in self.others}).values())

    @property
    def problems(self) -> tuple[Problem, ...]:
        of_tries = (one for each in self.tries for one in each.problems)
        return (*of_tries, *self.told.values(), *self.failure)

    @property
    def interrupted(self) -> bool:
        return self.stopped or any(each.interrupted for each in self.tries[-1:])

    @property
    def gave_way(self) -> bool:
        """Whether the last turn has left something to another one."""
        return not self.over and bool(self.tries) and self.tries[-1].gave_way

    @property
    def begun(self) -> frozenset[Ref]:
        """Changes of which hosts or the record have something; names and versions are recorded
        first.
        """
        first = {c.ref for c in self.shown.active if c.ref.kind == "bundle" or c.former}
        return frozenset(first.union(outcome.step.ref for outcome in self.outcomes))

    @property
    def left(self) -> Mapping[Ref, Change]:
        """Changes that were agreed to, and were neither done, nor tried in vain, nor reported."""
        gone = {one.ref for one in self.settled}.union(self.told)
        gone.update(ref for each in self.tries for walk in each.walks for ref in walk.failed)
        return {one.ref: one for one in self.shown.active if one.ref not in gone}

    def ended(self, failure: tuple[Problem, ...] = (), *, stopped: bool = False) -> Turns:
        """The outcome without another turn."""
        return replace(self, failure=failure, stopped=stopped, over=True)

    def within(self, world: World, plan: Plan, make: Make) -> tuple[Turns, Plan | None]:
        """A plan of what is left and of nothing else, if there is one.

        `plan` is of everything there is to do by now; `make` plans for some refs only.
        """
        turns, agreed = self._rest(plan, world), self._agreed(plan)
        wanted = agreed
        for _ in range(MOST):
            if len(agreed) == len(plan.active):
                break
            plan = make(tuple(map(str, sorted(agreed)))) if agreed else replace(plan, changes=())
            agreed &= self._agreed(plan)
        found = plan if agreed and len(agreed) == len(plan.active) else None
        lines = {change.ref: change for change in plan.changes}
        lost = wanted - agreed if found else wanted
        return turns._tell({ref: lines.get(ref) for ref in lost}), found

    def _agreed(self, plan: Plan) -> frozenset[Ref]:
        left, begun = self.left, self.begun
        return frozenset(c.ref for c in plan.active if is_agreed(c, left.get(c.ref), begun))

    def _rest(self, plan: Plan, world: World) -> Turns:
        """What it has no line for others have done, if the state shows it.

        What would be done otherwise was not agreed to.
        """
        left, lines = self.left, {change.ref: change for change in plan.changes}
        nodes = defaultdict[Ref, set[str]](set)
        for step in self.shown.steps:
            nodes[step.ref].add(step.node)
        gone = (change for ref, change in left.items() if ref not in lines)
        others = tuple(one for one in gone if stands(one, nodes[one.ref], world))
        changed = left.keys() - self._agreed(plan) - {change.ref for change in others}
        told = self._tell({ref: lines.get(ref) for ref in changed})
        return replace(told, others=(*self.others, *others))

    def _tell(self, lines: Mapping[Ref, Change | None]) -> Turns:
        why = {ref: changed_meanwhile(ref, lines[ref]) for ref in sorted(lines)}
        return replace(self, told={**self.told, **why})


@contextmanager
def behind_others(fleet: Fleet, command: str, interrupts: Interrupts) -> Iterator[Journal]:
    """The lock again, after those who wait for it.

    Raises ProblemError as `writing` does: `state_locked` where nobody gave it back, or where
    somebody wished to stop before.
    """
    lock, until = fleet.state / "lock", time.monotonic() + max(fleet.patience.seconds, PATIENCE)
    free_until = time.monotonic() + COURTESY
    while time.monotonic() < min(free_until, until) and not interrupts.asked:
        if holder(lock) is not None:
            want(lock)
            free_until = time.monotonic() + BETWEEN
        time.sleep(PAUSE)
    patience = LockPatience(
        seconds=max(0.0, until - time.monotonic()),
        tell=fleet.patience.tell,
        stop=lambda: interrupts.asked,
    )
    with writing(replace(fleet, patience=patience), command) as journal:
        yield journal
