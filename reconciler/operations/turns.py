"""Turns: an apply that others wait for goes on behind them, with what was agreed to and no more.

Between two waves nothing is begun that is not written down, so another run may take its turn there.
What it changes is seen: the rest is planned anew, from the specs and the state as they are by then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from reconciler.model.lock import Patience
from reconciler.model.plan import Change, Plan
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.work import StepOutcome
from reconciler.model.world import World
from reconciler.operations.agreeing import changed_meanwhile, is_agreed, stands
from reconciler.operations.interrupting import Interrupts
from reconciler.operations.tries import Tries
from reconciler.operations.wiring import Fleet
from reconciler.operations.writing import writing
from reconciler.store.journal import Journal

COURTESY = 0.5
"""Seconds in which whoever waits for the lock takes it: he asks more often than that."""

MOST = 3
"""So many plans are made of the rest until one is of nothing else."""


@dataclass(frozen=True, slots=True)
class Turns:
    """All turns of one apply, as if they were one.

    `shown` is the plan that was agreed to; `others` are changes of it that somebody else has made.
    """

    shown: Plan
    tries: tuple[Tries, ...] = ()
    others: tuple[Change, ...] = ()
    told: tuple[Problem, ...] = ()
    stopped: bool = False
    over: bool = False

    @property
    def outcomes(self) -> tuple[StepOutcome, ...]:
        return tuple(one for each in self.tries for one in each.outcomes)

    @property
    def settled(self) -> tuple[Change, ...]:
        """What is done, by whomever."""
        done = {one.ref: one for each in self.tries for one in each.settled}
        return tuple((done | {one.ref: one for one in self.others}).values())

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*(one for each in self.tries for one in each.problems), *self.told)

    @property
    def interrupted(self) -> bool:
        return self.stopped or any(each.interrupted for each in self.tries)

    @property
    def gave_way(self) -> bool:
        """Whether the last turn has left something to another one."""
        return not self.over and bool(self.tries) and self.tries[-1].gave_way

    @property
    def left(self) -> Mapping[Ref, Change]:
        """What was agreed to, and was neither done nor tried in vain."""
        gone = {one.ref for one in self.settled}
        gone.update(ref for each in self.tries for walk in each.walks for ref in walk.failed)
        return {one.ref: one for one in self.shown.active if one.ref not in gone}

    def ended(self, told: tuple[Problem, ...] = (), *, stopped: bool = False) -> Turns:
        """Without another turn."""
        return replace(self, told=(*self.told, *told), stopped=stopped, over=True)

    def rest(self, plan: Plan, world: World) -> tuple[Turns, tuple[Ref, ...]]:
        """What is still to be done, as `plan` would do it now that others had their turn.

        What it has no line for others have done, if the state shows it; what it does otherwise was
        not agreed to.
        """
        left, lines = self.left, {change.ref: change for change in plan.changes}
        begun = {outcome.step.ref for outcome in self.outcomes}
        agreed = [c.ref for c in plan.active if is_agreed(c, left.get(c.ref), begun)]
        others = tuple(c for c in left.values() if c.ref not in lines and stands(c, world))
        changed = left.keys() - set(agreed) - {change.ref for change in others}
        told = tuple(changed_meanwhile(ref, lines.get(ref)) for ref in sorted(changed))
        seen = replace(self, others=(*self.others, *others), told=(*self.told, *told))
        return seen, tuple(agreed)


def within(
    turns: Turns, world: World, make: Callable[[tuple[str, ...]], Plan]
) -> tuple[Turns, Plan | None]:
    """A plan of the rest and of nothing else, if there is one; `make` plans for some refs only."""
    plan = make(())
    turns, agreed = turns.rest(plan, world)
    for _ in range(MOST):
        if len(agreed) == len(plan.active):
            return turns, plan if agreed else None
        if not agreed:
            break
        plan = make(tuple(map(str, agreed)))
        wanted = set(agreed)
        agreed = tuple(change.ref for change in plan.active if change.ref in wanted)
    told = tuple(changed_meanwhile(ref, None) for ref in agreed)
    return replace(turns, told=(*turns.told, *told)), None


@contextmanager
def behind_others(fleet: Fleet, command: str, interrupts: Interrupts) -> Iterator[Journal]:
    """The lock again, after whoever waits for it.

    Raises ProblemError as `writing` does; `state_locked` only where somebody wishes to stop.
    """
    time.sleep(COURTESY)
    patience = Patience(seconds=math.inf, tell=fleet.patience.tell, stop=lambda: interrupts.asked)
    with writing(replace(fleet, patience=patience), command) as journal:
        yield journal
