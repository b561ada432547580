"""An application of a plan that has consent: its turns at the lock, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.force_detach import NOTHING_FORCED, Forced
from reconciler.model.plan.plan import Change, Plan, Risk
from reconciler.model.plan.work import HostProgress, StepOutcome
from reconciler.model.problem import Problem, ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.operations.apply.logins import Login, let_in, logins_of
from reconciler.operations.apply.record import recorded_as
from reconciler.operations.apply.retry_elsewhere import try_elsewhere
from reconciler.operations.apply.turns import Turns, behind_others
from reconciler.operations.apply.walk import Walk
from reconciler.operations.fleet import Fleet
from reconciler.operations.inventory.sync import keep_alarms
from reconciler.operations.journal import writing
from reconciler.operations.observe import Looks
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.fresh import look_and_plan
from reconciler.operations.plan.plan import plan_from
from reconciler.operations.published.publish import publish
from reconciler.operations.signals import Interrupts
from reconciler.store.journal import Journal
from reconciler.store.tables import queue

Progress = Callable[[HostProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """`approve` is a consent given before: changes up to that risk, the others are held.

    Where it is `unattended` nobody is asked, and what may go alone is a matter of policy.
    Unless it is to `wait`, hosts that start anew or build bundles are left to the next apply.
    """

    plan_file: Path | None = None
    approve: Risk | None = None
    unattended: bool = False
    only: tuple[str, ...] = ()
    uncommitted: tuple[str, ...] = ()
    forced: Forced = NOTHING_FORCED
    wait: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The outcome of `plan`. `problems` are those of the run; those of the plan are in it."""

    plan: Plan
    run: str = ""
    outcomes: tuple[StepOutcome, ...] = ()
    problems: tuple[Problem, ...] = ()
    done: tuple[Change, ...] = ()
    interrupted: bool = False
    logins: tuple[Login, ...] = ()

    @property
    def left(self) -> tuple[Change, ...]:
        """Changes that were to be done and are not."""
        done = {change.ref for change in self.done}
        return tuple(change for change in self.plan.active if change.ref not in done)

    @property
    def wrong(self) -> tuple[StepOutcome, ...]:
        """Steps that failed and whose purpose no later try has achieved."""
        done = {change.ref for change in self.done}
        return tuple(one for one in self.outcomes if not one.ok and one.step.ref not in done)


@dataclass(slots=True, kw_only=True)
class Application:
    """An apply that has consent, in one turn or in several.

    `command` names the holder of the lock.
    """

    fleet: Fleet
    command: str = "apply"
    options: ApplyOptions
    options_of_plan: PlanOptions
    looks: Looks
    on_progress: Progress
    interrupts: Interrupts
    turns: Turns = field(init=False)
    run: str = ""
    unpublished: tuple[Problem, ...] = ()
    logins: tuple[Login, ...] = ()

    def begin(self, journal: Journal, desired: Desired, world: World, plan: Plan) -> None:
        self.turns = Turns(shown=plan)
        self._turn(journal, desired, world, plan, saved=self.options.plan_file is not None)

    def go_on(self) -> None:
        """Continue with what is left, after whoever waited; what is done stays done if that
        fails.
        """
        waits = True
        try:
            with behind_others(self.fleet, self.command, self.interrupts) as journal:
                waits = False
                self._rest(journal)
        except ProblemError as error:
            if waits and self.interrupts.asked:
                self.turns = self.turns.ended(stopped=True)
            else:
                self.turns = self.turns.ended(error.problems)

    def _rest(self, journal: Journal) -> None:
        """The remaining work; what was seen before others had their turn counts no more."""
        if not journal.knows_run(self.run):
            raise refuse(
                "changed_meanwhile",
                "the state was put in another's place, so nothing more was done",
                "look at what is to be done now: gpuaas plan",
            )
        everything = replace(self.options_of_plan, only=())
        self.looks = Looks()
        desired, world, plan = look_and_plan(self.fleet, journal, everything, self.looks)

        def make(only: tuple[str, ...]) -> Plan:
            return plan_from(self.fleet, desired, world, replace(everything, only=only))

        self.turns, rest = self.turns.within(world, plan, make)
        if rest is None:
            self.turns = self.turns.ended()
        else:
            self._turn(journal, desired, world, rest, saved=False)

    def _turn(
        self, journal: Journal, desired: Desired, world: World, plan: Plan, *, saved: bool
    ) -> None:
        fleet = self.fleet
        walk = Walk(
            fleet=fleet,
            journal=journal,
            plan=plan,
            desired=desired,
            world=world,
            options=replace(self.options_of_plan, only=plan.only),
            on_progress=self.on_progress,
            interrupts=self.interrupts,
            stands=lambda settled: let_in(fleet, journal, settled, self.on_progress),
            wait=self.options.wait,
            silent=self.looks.silent(world),
            gives_way=True,
            earlier={outcome.step.id for outcome in self.turns.outcomes},
        )
        journal.refuse(plan)
        self.run = walk.run(saved=saved)
        tries = try_elsewhere(walk, walk.options)
        self.turns = replace(self.turns, tries=(*self.turns.tries, tries))
        after = journal.world()
        self.unpublished = publish(fleet, after, self.turns.shown, self.turns.settled)
        self.logins = tuple(logins_of(fleet, self.turns.settled, after))

    def result(self) -> Applied:
        turns = self.turns
        return Applied(
            plan=turns.shown,
            run=self.run,
            outcomes=turns.outcomes,
            problems=(*turns.problems, *self.unpublished),
            done=turns.settled,
            interrupted=turns.interrupted,
            logins=self.logins,
        )


def confirm(fleet: Fleet, journal: Journal, world: World, plan: Plan) -> None:
    """Where there is nothing else to do: what was in doubt shows what it should."""
    at = format_moment(fleet.now())
    confirmed = [recorded_as(c, world.recorded[c.ref], (), at) for c in plan.confirmed]
    if confirmed or plan.moved:
        journal.record("", confirmed, moved=plan.moved)


def options_of(plan: Plan) -> PlanOptions:
    """The options under which a shown plan is applied: leases count from when it was made."""
    return PlanOptions(
        only=plan.only,
        hold_above=plan.hold_above,
        unattended=plan.unattended,
        uncommitted=plan.uncommitted,
        forced=plan.forced,
        leases_from=parse_moment(plan.made_at),
    )


def keep_waiting(fleet: Fleet, plan: Plan) -> tuple[Problem, ...]:
    """Record requests that find no place, in the order in which an apply first saw them.

    Refusals are recorded too, and what is published is updated.
    """
    with writing(fleet, "apply") as journal:
        unpublished = note_waiting(fleet, journal, plan)
    if not (plan.only or plan.uncommitted):
        keep_alarms(fleet, plan)
    return unpublished


def note_waiting(fleet: Fleet, journal: Journal, plan: Plan) -> tuple[Problem, ...]:
    """The same, by whoever has the lock."""
    journal.refuse(plan)
    journal.enter("wait", queue.join, plan.waiting)
    return publish(fleet, journal.world(), plan)
