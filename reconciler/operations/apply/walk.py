"""The walk over a plan's waves: intent first, then each host, its evidence, and the record.

A host is judged and written down when it is done, whatever others are at. A crash between two
transactions leaves open steps, which the next walk observes before it plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import field, replace
from threading import Lock
from typing import Any

from reconciler.model.host.capacity import Isolation
from reconciler.model.host.evidence import Observation
from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import RunState
from reconciler.model.plan.plan import Action, Change, Plan, Step, Wave
from reconciler.model.plan.work import Host, HostProgress, StepOutcome, WaveOutcome
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Recorded, World
from reconciler.operations.apply.consent import may_end_turn
from reconciler.operations.apply.failures import tell
from reconciler.operations.apply.handlers import Goes, goes_on_by, is_slow, readies
from reconciler.operations.apply.record import recorded_as
from reconciler.operations.apply.revocation import Revocations
from reconciler.operations.apply.settlement import Books, Settlement
from reconciler.operations.apply.suspension_watch import SuspensionWatch, plan_again, revise
from reconciler.operations.apply.wave.intent import intent_of
from reconciler.operations.apply.wave.possible import possible
from reconciler.operations.apply.wave.proofs import WaveProofs
from reconciler.operations.apply.wave.reboot import RebootPatience
from reconciler.operations.apply.wave.work import Crew, Worked
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import SILENT, host_of
from reconciler.operations.options import PlanOptions
from reconciler.operations.signals import Interrupts
from reconciler.stops import around
from reconciler.store.file.lock import is_waited_for
from reconciler.store.journal import Journal
from reconciler.store.progress import RunProgress
from reconciler.store.tables import queue

ONLY_HOSTS = (Action.STAGE, Action.REPAIR)
"""Actions that change nothing of what documents say."""


@dataclass(slots=True, kw_only=True)
class Walk:
    """One run of one plan, under the lock; `run()` is called once. `options` are those of the plan.

    Afterwards `outcomes` holds each judged step, `settled` the changes that are done, `problems`
    what went wrong. `unready` are nodes that are not to take tenants, and whose failure that is;
    `silent` those that were found out of reach, which are not tried again. `stands` is told
    what is done before hosts begin with what nobody waits for. `boots` are the boots
    into which this run has restarted hosts; unless it is to `wait`, that is left to the next one.
    One that `gives_way` ends between two waves if others wait for the lock, and then it `gave_way`;
    `earlier` are the steps of turns before this one.
    """

    fleet: Fleet
    journal: Journal
    plan: Plan
    desired: Desired
    world: World
    on_progress: Callable[[HostProgress], None]
    interrupts: Interrupts
    options: PlanOptions = field(default_factory=PlanOptions)
    stands: Callable[[Sequence[Change]], Sequence[Problem]] = lambda settled: ()
    wait: bool = True
    silent: dict[str, Observation] = field(default_factory=dict)
    outcomes: dict[str, StepOutcome] = field(default_factory=dict)
    settled: dict[Ref, Change] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    failed: set[Ref] = field(default_factory=set)
    boots: dict[str, str] = field(default_factory=dict)
    unready: dict[str, StepOutcome] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    changes: dict[Ref, Change] = field(default_factory=dict)
    voice: Lock = field(default_factory=Lock)
    at: int = 0
    gives_way: bool = False
    earlier: Set[str] = frozenset()
    gave_way: bool = False
    progress: RunProgress = field(init=False)
    watch: SuspensionWatch = field(init=False)

    def __post_init__(self) -> None:
        self.progress = RunProgress(self.fleet.state, self.fleet.now)
        self._index()

    def _index(self) -> None:
        self.steps = {step.id: step for step in self.plan.steps}
        self.changes = {change.ref: change for change in self.plan.active}

    def run(self, *, saved: bool) -> str:
        """Carry the plan out and return the id of the run. A saved plan is marked as used first."""
        run = self.journal.begin_run(self.plan)
        self.watch = SuspensionWatch(
            revocations=Revocations(
                fleet=self.fleet,
                journal=self.journal,
                on_progress=self._on_progress,
                interrupts=self.interrupts,
                since=format_moment(self.fleet.now()),
            ),
            known=self.world.suspensions,
        )
        self.progress.begin(run)
        if saved:
            self.journal.use_plan(self.plan.fingerprint, run)
        self._rename(run)
        self._record_first(run)
        stepless = [change for change in self.plan.active if not change.steps]
        if not self.interrupts.asked:
            if (plan := self.plan).confirmed or plan.moved:
                self.journal.record(run, [*map(self._recorded, plan.confirmed)], moved=plan.moved)
            self._record(run, [c for c in stepless if c.action is not Action.FORGET])
        for at in range(len(self.plan.waves)):
            self.at = at
            self._heed(at)
            wave = self.plan.waves[at]
            if self._is_to_give_way():
                self.gave_way = True
                break
            if all(map(is_slow, wave.steps)) and not self.interrupts.asked:
                self.problems += self.stands(tuple(self.settled.values()))
            if not self.interrupts.asked:
                self._wave(run, wave)
        if not self.interrupts.asked and not self.gave_way:
            self._record(run, [c for c in stepless if c.action is Action.FORGET])
        self._heed(len(self.plan.waves))
        self.journal.enter("wait", queue.join, self.plan.waiting)
        self.journal.end_run(run, self._state(), self.problems)
        return run

    def host(self, node: str) -> Host | None:
        """The host to work on; whole hosts are to be in the boot of the evidence (rule 7)."""
        host = host_of(self.fleet, self.desired, self.world, node)
        seen = self.world.observations.get(node)
        if host is None or host.isolation == Isolation.DIRECTORY or seen is None:
            return host
        known = seen.facts.boot_id if seen.facts else ""
        return replace(host, boot_id=self.boots.get(node, known))

    @property
    def interrupted(self) -> bool:
        """A wish to stop that came when all was done has interrupted nothing."""
        return self.interrupts.asked and any(c.ref not in self.settled for c in self.plan.active)

    def _is_to_give_way(self) -> bool:
        """Whether to give way to a waiting command; never before something new is done."""
        if not self.gives_way or self.interrupts.asked or self.outcomes.keys() <= self.earlier:
            return False
        waves = self.plan.waves[self.at :]
        ahead = [s for wave in waves for s in wave.steps if s.ref not in self.failed]
        may_end = may_end_turn(self.plan, self.outcomes.values(), ahead)
        return may_end and is_waited_for(self.fleet.state / "lock")

    def _state(self) -> RunState:
        if self.interrupted:
            return RunState.INTERRUPTED
        failed = any(problem.is_error for problem in self.problems)
        return RunState.FAILED if failed else RunState.DONE

    def _rename(self, run: str) -> None:
        """Record new names first: the work that follows uses them."""
        working = [c for c in self.plan.active if c.former is not None and c.steps]
        renamed = [
            (c.former, replace(self.world.recorded[c.former], ref=c.ref))
            for c in working
            if c.former
        ]
        if renamed:
            self.journal.record(run, renamed=renamed)

    def _record_first(self, run: str) -> None:
        """Fix what is recorded first, whatever becomes of it on any host."""
        at, books = format_moment(self.fleet.now()), self._books
        recorded = [
            recorded_as(change, self.world.recorded.get(change.ref), (), at)
            for change in self.plan.active
            if change.action not in ONLY_HOSTS and books.recorded_first(change)
        ]
        if recorded and not self.interrupts.asked:
            self.journal.record(run, recorded)

    def _record(self, run: str, changes: Iterable[Change]) -> None:
        """Record changes without work on hosts, in one transaction."""
        made = self._books.without_hosts(changes)
        self._take_in(made)
        if made.recorded or made.forgotten or made.renamed:
            self.journal.record(run, made.recorded, made.forgotten, made.renamed)

    def _take_in(self, made: Settlement) -> None:
        self.problems += made.problems
        self.failed |= made.failed
        self.settled |= {change.ref: change for change in made.settled}

    @property
    def _books(self) -> Books:
        return Books(
            steps=self.steps, outcomes=self.outcomes, failed=self.failed, record=self._recorded
        )

    def _wave(self, run: str, wave: Wave) -> None:
        """Write the intent; then judge and record each host as soon as it is done."""
        left = possible(wave, self.outcomes.values(), self.failed, self.unready)
        self.failed |= left.failed
        self.unready |= left.unready
        self.problems += left.problems
        steps = left.steps
        if not steps:
            return
        self.journal.begin_wave(run, intent_of(self.plan, steps))
        self.watch.begin_wave(steps)
        self.progress.begin_wave()
        tried = any(outcome.ok and readies(outcome.step) for outcome in self.outcomes.values())
        proofs = WaveProofs(desired=self.desired, before=self.world, now=self.journal.world())
        for worked in self._crew().work(steps, tried=tried):
            self._finish(run, worked, proofs)
        self.problems += tell(self.outcomes[s.id] for s in steps if s.id in self.outcomes)

    def _crew(self) -> Crew:
        return Crew(
            fleet=self.fleet,
            find=self.host,
            on_progress=self._on_progress,
            interrupts=self.interrupts,
            silent=self.silent,
            failed=self.world.failures.keys(),
            patience=RebootPatience() if self.wait else None,
            meanwhile=lambda: self._heed(self.at + 1),
        )

    def _heed(self, at: int) -> None:
        """What was suspended meanwhile counts from now on, for all waves from this one on too."""
        if (suspensions := self.watch.news()) is not None:
            self.world = replace(self.world, suspensions=suspensions)
            fresh = plan_again(self.fleet, self.plan, self.desired, self.world, self.options)
            revised = revise(self.plan, fresh, at)
            self.plan = revised.plan
            self.problems += revised.problems
            self.failed |= revised.left_out
            self._index()
        self.problems += self.watch.carry()

    def _finish(self, run: str, worked: Worked, wave: WaveProofs) -> None:
        """Record the outcome of one host: a receipt is never a proof, so it was observed before."""
        self.silent |= {n: seen for n, seen in worked.seen.items() if seen.problem in SILENT}
        self.boots |= _new_boots(worked)
        with around("prove"):
            at = format_moment(self.fleet.now())
            proofs = wave.prove([o.step for o in worked.judged], worked.seen, at)
            untouched, absent = wave.untouched(self.plan, self.outcomes, worked, at)
        for judged in worked.judged:
            self.outcomes[judged.step.id] = judged
            if judged.problem is not None:
                self.failed.add(judged.step.ref)
        outcome = WaveOutcome(
            steps=worked.judged,
            observations=tuple(worked.seen.values()),
            proofs=(*proofs, *absent),
            untouched=untouched,
            ticks=self.progress.ticks,
        )
        refs = {o.step.ref for o in worked.judged} & self.changes.keys()
        made = self._books.settle([self.changes[ref] for ref in sorted(refs)], wave.made)
        self._take_in(made)
        self.journal.finish_wave(run, outcome, made.recorded, made.forgotten)
        self.watch.finish([judged.step for judged in worked.judged])
        self.watch.note_recorded(one.node for one in made.recorded if one.node)

    def _on_progress(self, progress: HostProgress) -> None:
        """Pass progress on one at a time, though several hosts report at once."""
        with self.voice:
            self.progress.tick(progress)
            self.on_progress(progress)

    def again(self, plan: Plan, world: World) -> Walk:
        """The same walk for another plan, in the same apply."""
        fresh: dict[str, Any] = {"outcomes": {}, "settled": {}, "problems": []}
        options = replace(self.options, only=plan.only)
        fresh |= {"failed": set(), "at": 0, "gives_way": False, "gave_way": False}
        return replace(self, plan=plan, world=world, options=options, **fresh)

    def _recorded(self, change: Change) -> Recorded:
        before = self.world.recorded.get(change.former or change.ref)
        at = self.watch.moment_of_record(self.fleet.now())
        return recorded_as(change, before, [self.steps[step] for step in change.steps], at)


def _new_boots(worked: Worked) -> dict[str, str]:
    """By node, those that are in another boot because they were told to be."""
    restarted = {o.step.node for o in worked.judged if o.ok and goes_on_by(o.step, Goes.BOOT)}
    seen = {node: worked.seen[node].facts for node in restarted & worked.seen.keys()}
    return {node: facts.boot_id for node, facts in seen.items() if facts is not None}
