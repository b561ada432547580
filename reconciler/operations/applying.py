"""`apply`: show a plan, get consent, do exactly that plan, and believe only what is read back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from pathlib import Path

from reconciler.hosts.openssh import plain_command
from reconciler.model.desired import Desired
from reconciler.model.endpoint import unsound
from reconciler.model.forced import NOTHING_FORCED, Forced
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan import RISKS, Action, Cause, Change, Plan, Risk, fingerprint
from reconciler.model.problem import Problem, ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.work import HostProgress, StepOutcome
from reconciler.model.world import World
from reconciler.operations.endpoints import endpoints, published_config, way_in
from reconciler.operations.forced_detach import insist_on_forced
from reconciler.operations.fresh_plan import look_and_plan
from reconciler.operations.interrupting import Interrupts
from reconciler.operations.observing import Looks
from reconciler.operations.options import PlanOptions
from reconciler.operations.planning import plan_from
from reconciler.operations.publishing import publish
from reconciler.operations.recording import recorded_as
from reconciler.operations.saving import read_plan
from reconciler.operations.syncing import keep_alarms
from reconciler.operations.tries import try_elsewhere
from reconciler.operations.turns import Turns, behind_others
from reconciler.operations.walking import Walk
from reconciler.operations.wiring import Fleet
from reconciler.operations.writing import writing
from reconciler.store.history import plan_used_at
from reconciler.store.journal import Journal

Ask = Callable[[Plan], bool]
Progress = Callable[[HostProgress], None]

GIVEN = frozenset({Cause.EXPIRED, Cause.CONSENTED})
"""Causes that need no consent: somebody has given it before."""


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
class Login:
    """Where a new allocation answers: `place` is its folder, or the line that logs in as it stands.

    `plain` is that line without the pins of the host, for who has nothing of ours at hand.
    """

    ref: str
    login: str
    node: str
    place: str
    plain: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of `plan`. `problems` are those of the run; those of the plan stand in it."""

    plan: Plan
    run: str = ""
    outcomes: tuple[StepOutcome, ...] = ()
    problems: tuple[Problem, ...] = ()
    done: tuple[Change, ...] = ()
    interrupted: bool = False
    logins: tuple[Login, ...] = ()

    @property
    def left(self) -> tuple[Change, ...]:
        """What was to be done and is not."""
        done = {change.ref for change in self.done}
        return tuple(change for change in self.plan.active if change.ref not in done)

    @property
    def wrong(self) -> tuple[StepOutcome, ...]:
        """Steps that failed, and what they were for does not stand by now in another place."""
        done = {change.ref for change in self.done}
        return tuple(one for one in self.outcomes if not one.ok and one.step.ref not in done)


def apply(
    fleet: Fleet, options: ApplyOptions, ask: Ask, on_progress: Progress, interrupts: Interrupts
) -> Applied:
    """Raises ProblemError before anything was done; later problems stand in the result.

    `ask` is shown the plan and says whether to go on; it knows of a consent given before, and is
    not called where there is nothing to do.
    """
    looks = Looks()
    plan = _plan_to_show(fleet, options, looks)
    if not plan.active:
        return Applied(plan=plan, problems=_keep_waiting(fleet, plan))
    if not ask(plan):
        raise refuse("declined", "nothing was applied", "run it again and answer yes")
    ours = _Apply(
        fleet=fleet,
        options=options,
        options_of_plan=_options_of(plan),
        looks=looks,
        on_progress=on_progress,
        interrupts=interrupts,
    )
    with ExitStack() as to_the_end:
        with writing(fleet, "apply") as journal:
            desired, world, fresh = look_and_plan(fleet, journal, ours.options_of_plan, looks)
            _insist(plan, fresh, saved=options.plan_file is not None)
            journal.snapshot(fleet.settings.keep.snapshots)
            # From here on a signal is a wish to stop; until now it simply ended the command.
            to_the_end.enter_context(interrupts)
            ours.begin(journal, desired, world, fresh)
        while ours.turns.gave_way:
            ours.go_on()
    return ours.result()


@dataclass(slots=True, kw_only=True)
class _Apply:
    """An apply that has consent, in one turn or in several."""

    fleet: Fleet
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
        """With what is left, behind whoever waited; what is done stays done if that cannot be."""
        waits = True
        try:
            with behind_others(self.fleet, "apply", self.interrupts) as journal:
                waits = False
                self._rest(journal)
        except ProblemError as error:
            if waits and self.interrupts.asked:
                self.turns = self.turns.ended(stopped=True)
            else:
                self.turns = self.turns.ended(error.problems)

    def _rest(self, journal: Journal) -> None:
        """What was seen before others had their turn counts no more."""
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
            stands=lambda settled: _let_in(fleet, journal, settled, self.on_progress),
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
        self.unpublished = publish(fleet, after)
        self.logins = tuple(_logins(fleet, self.turns.settled, after))

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


def _plan_to_show(fleet: Fleet, options: ApplyOptions, looks: Looks) -> Plan:
    if options.plan_file is None:
        wanted = PlanOptions(
            only=options.only,
            hold_above=options.approve,
            unattended=options.unattended,
            uncommitted=options.uncommitted,
            forced=options.forced,
        )
        with writing(fleet, "apply") as journal:
            _, world, plan = look_and_plan(fleet, journal, wanted, looks)
            insist_on_forced(fleet, plan)
            if not plan.active:
                _confirm(fleet, journal, world, plan)
        return plan
    plan = read_plan(options.plan_file)
    insist_on_forced(fleet, plan)
    with fleet.reading() as database:
        used_at = plan_used_at(database, plan.fingerprint)
    if used_at:
        raise refuse(
            "plan_used",
            f"the plan {plan.fingerprint[7:15]} was applied on {used_at}",
            "make a new one: gpuaas plan --save FILE",
        )
    risky = [c for c in plan.active if c.cause not in GIVEN and _above(c.risk, options.approve)]
    if risky:
        raise refuse(
            "held_for_approval",
            f"{risky[0].ref} {risky[0].risk.value}, and the consent covers {options.approve}",
            f"give it: gpuaas apply {options.plan_file} --auto-approve={risky[0].risk.value}",
        )
    return plan


def _confirm(fleet: Fleet, journal: Journal, world: World, plan: Plan) -> None:
    """Where there is nothing else to do: what was in doubt shows what it should."""
    at = format_moment(fleet.now())
    confirmed = [recorded_as(c, world.recorded[c.ref], (), at) for c in plan.confirmed]
    if confirmed or plan.moved:
        journal.record("", confirmed, moved=plan.moved)


def _above(risk: Risk, limit: Risk | None) -> bool:
    return limit is not None and RISKS.index(risk) > RISKS.index(limit)


def _options_of(plan: Plan) -> PlanOptions:
    """What was shown is what is done: leases that begin with it count from when it was made."""
    return PlanOptions(
        only=plan.only,
        hold_above=plan.hold_above,
        unattended=plan.unattended,
        uncommitted=plan.uncommitted,
        forced=plan.forced,
        leases_from=parse_moment(plan.made_at),
    )


def _insist(shown: Plan, fresh: Plan, *, saved: bool) -> None:
    """Raise `plan_stale` unless the world still wants exactly what was shown.

    Whether anything else was written meanwhile counts only for a plan that was kept.
    """
    if fresh.fingerprint == shown.fingerprint:
        return
    if not saved and fingerprint(replace(fresh, serial=shown.serial)) == shown.fingerprint:
        return
    reasons = (
        (shown.state_id != fresh.state_id, "it was made for another state"),
        (shown.serial != fresh.serial, f"state #{shown.serial} is now #{fresh.serial}"),
        (shown.desired_digest != fresh.desired_digest, "the specs were changed"),
    )
    why = [text for differs, text in reasons if differs] or [_first_difference(shown, fresh)]
    raise refuse(
        "plan_stale",
        "what was shown is no longer what would be done: " + "; ".join(why),
        "look at the new plan: gpuaas plan",
    )


def _first_difference(shown: Plan, fresh: Plan) -> str:
    before = {(str(c.ref), c.action.value) for c in shown.changes}
    after = {(str(c.ref), c.action.value) for c in fresh.changes}
    changed = sorted(before ^ after)
    if changed:
        ref, action = changed[0]
        return f"{ref} ({action}) {'is new' if changed[0] in after else 'is gone'}"
    if shown.revision != fresh.revision:
        return "the specs were committed since, and hosts are told by which commit"
    return "time, hosts or templates have moved on, which changes a step"


def _keep_waiting(fleet: Fleet, plan: Plan) -> tuple[Problem, ...]:
    """A request that finds no place waits in the order in which an apply first saw it.

    What is refused is written down, and what is published is brought in line.
    """
    with writing(fleet, "apply") as journal:
        journal.refuse(plan)
        journal.wait(plan.waiting)
        unpublished = publish(fleet, journal.world())
    if not (plan.only or plan.uncommitted):
        keep_alarms(fleet, plan)
    return unpublished


def _let_in(
    fleet: Fleet,
    journal: Journal,
    settled: Sequence[Change],
    on_progress: Callable[[HostProgress], None],
) -> tuple[Problem, ...]:
    """Who has got an allocation can use it while hosts still build what nobody waits for."""
    world = journal.world()
    unpublished = publish(fleet, world)
    for one in _logins(fleet, settled, world):
        on_progress(HostProgress(node=one.node, phase="ready", detail=f"{one.ref}: {one.place}"))
    return unpublished


def _logins(fleet: Fleet, settled: Iterable[Change], after: World) -> Iterator[Login]:
    reached = {one.ref: one for one in endpoints(fleet.settings, after)}
    for change in settled:
        one = reached.get(change.ref)
        if one is not None and change.action in (Action.CREATE, Action.REPLACE):
            yield Login(
                ref=str(one.ref),
                login=one.login,
                node=one.node,
                place=way_in(one, published_config(fleet.settings, one.ref.project)),
                plain="" if one.folder or unsound(one) else plain_command(one),
            )
