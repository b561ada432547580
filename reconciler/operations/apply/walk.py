"""The walk over a plan's waves: intent first, then each host, its evidence, and the record.

A host is judged and written down when it is done, whatever others are at. A crash between two
transactions leaves open steps, which the next walk observes before it plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import field, replace
from threading import Lock
from typing import Any

from reconciler.kinds.allocation.restart import reboots
from reconciler.model.host.capacity import Isolation
from reconciler.model.host.evidence import Observation, Proof
from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import RunState
from reconciler.model.plan.plan import Action, Change, Order, Plan, Step, Wave
from reconciler.model.plan.verb import Verb
from reconciler.model.plan.work import Host, HostProgress, StepOutcome, WaveIntent, WaveOutcome
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Recorded, World
from reconciler.operations.access.revocation import Revocations
from reconciler.operations.apply.consent import may_end_turn
from reconciler.operations.apply.failures import tell
from reconciler.operations.apply.outcomes import has_harmed, not_tried
from reconciler.operations.apply.proofs import WaveProofs, blocked
from reconciler.operations.apply.reboot import RebootPatience
from reconciler.operations.apply.record import recorded_as
from reconciler.operations.apply.suspension_watch import SuspensionWatch, plan_again, revise
from reconciler.operations.apply.work import Crew, Worked
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import SILENT, host_of
from reconciler.operations.options import PlanOptions
from reconciler.operations.signals import Interrupts
from reconciler.planner.bundles.install import is_slow
from reconciler.planner.storage.attachment_rules import joining_by
from reconciler.stops import around
from reconciler.store.file.lock import is_waited_for
from reconciler.store.journal import Journal
from reconciler.store.progress import RunProgress
from reconciler.store.tables import queue


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
        self._record_bundles(run)
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

    def _record_bundles(self, run: str) -> None:
        """Fix what a version is made from, whatever becomes of it on any host."""
        stated = [c for c in self.plan.active if c.ref.kind == "bundle" and c.steps]
        at = format_moment(self.fleet.now())
        recorded = [
            recorded_as(change, self.world.recorded.get(change.ref), (), at)
            for change in stated
            if change.action not in (Action.STAGE, Action.REPAIR)
        ]
        if recorded and not self.interrupts.asked:
            self.journal.record(run, recorded)

    def _record(self, run: str, changes: Iterable[Change]) -> None:
        """Record changes without work on hosts, in one transaction."""
        recorded: list[Recorded] = []
        forgotten: list[Ref] = []
        renamed: list[tuple[Ref, Recorded]] = []
        for change in changes:
            if change.action is Action.FORGET:
                forgotten.append(change.ref)
            elif change.former is not None:
                renamed.append((change.former, self._recorded(change)))
            else:
                recorded.append(self._recorded(change))
            self.settled[change.ref] = change
        if recorded or forgotten or renamed:
            self.journal.record(run, recorded, forgotten, renamed)

    def _wave(self, run: str, wave: Wave) -> None:
        """Write the intent; then judge and record each host as soon as it is done."""
        steps = self._possible(wave)
        if not steps:
            return
        claiming = {step.ref for step in steps if step.order is not Order.RETIRE}
        claims = tuple(claim for claim in self.plan.claims if claim.ref in claiming)
        leaving = tuple(sorted(_leaving(self.plan, steps)))
        self.journal.begin_wave(
            run,
            WaveIntent(
                steps=steps,
                claims=claims,
                releasing=leaving,
                joining=joining_by(self.plan, steps),
            ),
        )
        self.watch.begin_wave(steps)
        self.progress.begin_wave()
        prepares = (o for o in self.outcomes.values() if o.step.verb == Verb.PREPARE)
        tried = any(outcome.ok for outcome in prepares)
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
        recorded, forgotten = self._settle({o.step.ref for o in worked.judged}, wave.made)
        self.journal.finish_wave(run, outcome, recorded, forgotten)
        self.watch.finish([judged.step for judged in worked.judged])
        self.watch.note_recorded(one.node for one in recorded if one.node)

    def _on_progress(self, progress: HostProgress) -> None:
        """Pass progress on one at a time, though several hosts report at once."""
        with self.voice:
            self.progress.tick(progress)
            self.on_progress(progress)

    def _possible(self, wave: Wave) -> tuple[Step, ...]:
        """The wave's steps without those that an earlier failure rules out.

        Nobody is placed on a host that is not ready for tenants. Where preparing has done harm to a
        host, no other is tried; a host that refused without a change holds up nobody.
        """
        failed = [o for o in self.outcomes.values() if o.step.verb == Verb.PREPARE and not o.ok]
        self.unready.update({outcome.step.node: outcome for outcome in failed})
        harmed = next(filter(has_harmed, failed), None)
        possible = []
        for step in wave.steps:
            if step.ref in self.failed:
                continue
            if step.verb == Verb.PREPARE and harmed is not None:
                self.unready[step.node] = harmed
            cause = self.unready.get(step.node)
            if cause is None or step.order is Order.RETIRE:
                possible.append(step)
            else:
                # Whom one host cannot serve, others may: a bundle is built on each by itself.
                self.failed.update(() if is_slow(step) else (step.ref,))
                why = f"{cause.step.node} could not be made ready for tenants"
                self.problems.append(not_tried(step, why))
        return tuple(step for step in possible if step.ref not in self.failed)

    def again(self, plan: Plan, world: World) -> Walk:
        """The same walk for another plan, in the same apply."""
        fresh: dict[str, Any] = {"outcomes": {}, "settled": {}, "problems": []}
        options = replace(self.options, only=plan.only)
        fresh |= {"failed": set(), "at": 0, "gives_way": False, "gave_way": False}
        return replace(self, plan=plan, world=world, options=options, **fresh)

    def _settle(self, refs: Set[Ref], proofs: Sequence[Proof]) -> tuple[list[Recorded], list[Ref]]:
        """What may be written down of the changes whose last step has ended.

        A replace is written down as soon as its new place stands: whatever becomes of the old one,
        or of this run, nobody may take what somebody uses by now for the rest of a failure.
        """
        recorded: list[Recorded] = []
        forgotten: list[Ref] = []
        for change in (self.changes[ref] for ref in sorted(refs & self.changes.keys())):
            if any(step not in self.outcomes for step in change.steps):
                recorded += [self._recorded(change)] if self._has_moved(change) else []
                continue
            if change.ref.kind == "bundle":
                # Recorded before; what stands on which host is told by the hosts.
                if change.ref not in self.failed:
                    self.settled[change.ref] = change
                continue
            ending = self._ending(change)
            unproved = [p for p in proofs if p.allocation_id in ending and not p.passed]
            if unproved:
                self.problems.append(blocked(change, unproved))
                self.failed.add(change.ref)
            if change.action is Action.RELEASE and not change.undo_minutes:
                forgotten.append(change.ref)
            elif change.ref not in self.failed or unproved:
                recorded.append(self._recorded(change))
            if change.ref not in self.failed:
                self.settled[change.ref] = change
        return recorded, forgotten

    def _has_moved(self, change: Change) -> bool:
        """Whether a replace has provided its new place."""
        provided = (s.id for s in self._steps_of(change) if s.order is not Order.RETIRE)
        return change.action is Action.REPLACE and all(
            step in self.outcomes and self.outcomes[step].ok for step in provided
        )

    def _steps_of(self, change: Change) -> list[Step]:
        return [self.steps[step] for step in change.steps]

    def _ending(self, change: Change) -> set[str]:
        """Ids of the allocations that this change gives up."""
        retiring = [s for s in self._steps_of(change) if s.order is Order.RETIRE]
        return {str(s.item["id"]) for s in retiring if "id" in s.item}

    def _recorded(self, change: Change) -> Recorded:
        before = self.world.recorded.get(change.former or change.ref)
        at = self.watch.moment_of_record(self.fleet.now())
        return recorded_as(change, before, self._steps_of(change), at)


def _new_boots(worked: Worked) -> dict[str, str]:
    """Nodes that are in another boot because they were told to be."""
    restarted = {o.step.node for o in worked.judged if o.ok and reboots(o.step)}
    seen = {node: worked.seen[node].facts for node in restarted & worked.seen.keys()}
    return {node: facts.boot_id for node, facts in seen.items() if facts is not None}


def _leaving(plan: Plan, steps: Iterable[Step]) -> set[Ref]:
    """Refs of which an allocation is given up: only a release or replace ends claims.

    One that is held or blocked ends none, though its keys may be taken away already; and one that
    can be taken back keeps its own.
    """
    ending = {
        c.ref
        for c in plan.active
        if c.action in (Action.RELEASE, Action.REPLACE) and not c.undo_minutes
    }
    return {s.ref for s in steps if s.order is Order.RETIRE and s.ref in ending}
