"""A tick: take the newest commit, observe due hosts, plan, and do what needs no approval.

What is held, broken or out of reach is told, and keeps nothing else from being done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from reconciler.model.host.evidence import Observation
from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.plan.plan import Plan
from reconciler.model.problem import Problem, ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.operations.apply.application import (
    Application,
    Applied,
    ApplyOptions,
    Progress,
    confirm,
    note_waiting,
    options_of,
)
from reconciler.operations.cache.plan_cache import input_key
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.journal import writing
from reconciler.operations.observe import Looks, look, node_names
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.fresh import look_and_plan
from reconciler.operations.reconcile.attempts import Attempts
from reconciler.operations.reconcile.due import Due, Rhythm, due
from reconciler.operations.reconcile.postponement import postponed
from reconciler.operations.reconcile.source.source import Sourced, follow
from reconciler.operations.rounds.rounds import Memory, Phases, Tick
from reconciler.operations.signals import Interrupts
from reconciler.operations.specs import read_desired
from reconciler.store.file.lock import LOOP
from reconciler.store.journal import Journal
from reconciler.store.serial import read_looks

BUSY = "state_locked"


def tick(fleet: Fleet, memory: Memory, interrupts: Interrupts, on_progress: Progress) -> Tick:
    """One round. Raises ProblemError where nothing can be known: no commit, no state; and
    `interrupted` where somebody wished it to end before anything was begun.
    """
    phases = Phases()
    with phases("source"):
        sourced = follow(fleet)
    made = _Round(
        sourced=sourced,
        memory=memory,
        interrupts=interrupts,
        on_progress=on_progress,
        phases=phases,
        attempts=Attempts(memory=memory),
    )
    memory.pace.begin(sourced.commit)
    made.insist()
    found = made.idle() or made.work()
    memory.last = found
    return found


@dataclass(slots=True, kw_only=True)
class _Round:
    sourced: Sourced
    memory: Memory
    interrupts: Interrupts
    on_progress: Progress
    phases: Phases
    attempts: Attempts
    observed: int = 0

    @property
    def fleet(self) -> Fleet:
        return self.sourced.fleet

    @property
    def told(self) -> tuple[Problem, ...]:
        stale = self.sourced.stale
        return (*((stale,) if stale else ()), *self.sourced.notes)

    def insist(self) -> None:
        """Refuse to begin anything after a wish to end."""
        if self.interrupts.asked:
            raise refuse("interrupted", "stopped on request", "")

    def idle(self) -> Tick | None:
        """Whether the input is that of a plan with nothing to do, and no host is due."""
        memory = self.memory
        if memory.nodes_of != self.sourced.commit or not memory.rest:
            return None
        now, until = self.fleet.now(), parse_moment(memory.rest_until)
        hosts = self._due(memory.nodes)
        if (until is not None and now >= until) or hosts.sound or hosts.silent:
            return None
        with self.phases("plan"):
            if self._key() != memory.rest:
                return None
        before = memory.last.plan if memory.last else None
        return self._told(plan=before, idle=True)

    def work(self) -> Tick:
        options = PlanOptions(unattended=True)
        with writing(self.fleet, LOOP) as journal:
            looks = Looks()
            hosts = self._look_at_sound(journal, looks)
            with self.phases("plan"):
                desired, world, plan = look_and_plan(self.fleet, journal, options, looks)
                waits = self.memory.pace.waiting(self.memory.clock())
                later = postponed(plan, waits, self.sourced.stale, desired, world)
                active = [c for c in plan.active if c.ref not in later]
                chosen = plan
                if len(active) < len(plan.active) and active:
                    only = tuple(sorted(str(change.ref) for change in active))
                    _, world, chosen = look_and_plan(
                        self.fleet, journal, replace(options, only=only), looks
                    )
            self.insist()
            applied = Applied(plan=plan)
            if not active or not chosen.active:
                confirm(self.fleet, journal, world, plan)
                problems = note_waiting(self.fleet, journal, plan)
                applied = replace(applied, problems=problems)
            else:
                ours = Application(
                    fleet=self.fleet,
                    command=LOOP,
                    options=ApplyOptions(unattended=True, wait=False),
                    options_of_plan=options_of(chosen),
                    looks=looks,
                    on_progress=self.on_progress,
                    interrupts=self.interrupts,
                )
                with self.phases("apply"):
                    journal.snapshot(self.fleet.settings.keep.snapshots)
                    ours.begin(journal, desired, world, chosen)
            # Under the lock still: what others write from now on is to wake the next round.
            key = "" if plan.active else self._key()
        if active and chosen.active:
            with self.phases("apply"):
                while ours.turns.gave_way:
                    ours.go_on()
            applied = ours.result()
        self.attempts.judge(applied)
        if hosts.silent and not self.interrupts.asked:
            key = self._look_at_silent(hosts.silent, key)
        self._keep(plan)
        self.memory.rest = "" if applied.interrupted else key
        self.memory.rest_until = plan.next_moment
        return self._told(plan=plan, applied=applied, later=later)

    def _due(self, names: Iterable[str]) -> Due:
        with self.fleet.reading() as database:
            seen = read_looks(database)
        waiting = {
            name.removeprefix("node/") for name in self.memory.pace.waiting(self.memory.clock())
        }
        loop = self.fleet.settings.loop
        rhythm = Rhythm(
            observe_seconds=loop.observe_seconds, interval_seconds=loop.interval_seconds
        )
        return due(names, seen, waiting, self.fleet.now(), rhythm)

    def _look_at_sound(self, journal: Journal, looks: Looks) -> Due:
        """Those that did not answer are not asked by the plan either: they come at the end."""
        memory = self.memory
        if memory.nodes_of != self.sourced.commit:
            with self.phases("plan"), without_collector():
                memory.nodes = node_names(read_desired(self.fleet))
            memory.nodes_of = self.sourced.commit
        hosts = self._due(memory.nodes)
        now = self.fleet.now()
        looks.taken.update(dict.fromkeys(self._troubled(), now))
        names = looks.due(hosts.sound, now)
        if names:
            self._look(journal, names)
        self.insist()
        return hosts

    def _look_at_silent(self, names: Iterable[str], key: str) -> str:
        """The key of what was planned, with what they said; empty if there may be more to plan.

        Whoever has the lock meanwhile does not keep from being told what this round has done.
        """
        try:
            with writing(self.fleet, LOOP) as journal:
                known = bool(key) and self._key() == key
                answered = any(not one.problem for one in self._look(journal, names))
                return self._key() if known and not answered else ""
        except ProblemError as error:
            if not is_busy(error):
                raise
            return ""

    def _look(self, journal: Journal, names: Iterable[str]) -> tuple[Observation, ...]:
        with self.phases("observe"), without_collector():
            seen = look(self.fleet, journal, read_desired(self.fleet), names)
        self.observed += len(seen)
        for one in seen:
            if one.problem:
                self.attempts.fail(f"node/{one.node}", one.problem, one.message)
            else:
                self.attempts.succeed(f"node/{one.node}")
        return seen

    def _keep(self, plan: Plan) -> None:
        """What nobody has anything to do about any more waits for nothing."""
        pace = self.memory.pace
        nodes = {f"node/{name}" for name in self.memory.nodes}
        wanted = {str(change.ref) for change in plan.changes} | nodes
        pace.keep(wanted.union(pace.contested(self.memory.clock())))

    def _silent(self) -> tuple[str, ...]:
        """Hosts of which nothing is known just now, whoever asked them last."""
        waits = {name for name in self.memory.pace.waits if name.startswith("node/")}
        known = (f"node/{name}" for name in self._troubled().intersection(self.memory.nodes))
        return tuple(sorted(waits.union(known)))

    def _troubled(self) -> set[str]:
        """Nodes whose last answer told nothing."""
        with self.fleet.reading() as database:
            return {name for name, (_, problem) in read_looks(database).items() if problem}

    def _key(self) -> str:
        with self.fleet.reading() as database:
            return input_key(self.fleet, PlanOptions(unattended=True), database)

    def _told(
        self,
        *,
        plan: Plan | None,
        applied: Applied | None = None,
        idle: bool = False,
        later: Iterable[Ref] = (),
    ) -> Tick:
        problems = (*self.told, *(applied.problems if applied else ()))
        pace = self.memory.pace
        return Tick(
            at=format_moment(self.fleet.now()),
            commit=self.sourced.commit,
            seconds={name: round(s, 3) for name, s in self.phases.seconds.items()},
            idle=idle,
            observed=self.observed,
            silent=self._silent(),
            plan=plan,
            run=applied.run if applied else "",
            done=applied.done if applied else (),
            failed=tuple(self.attempts.failures),
            postponed=tuple(sorted(map(str, later))),
            recovered=tuple(self.attempts.recovered),
            contested=tuple(self.attempts.contested),
            disputed=pace.contested(self.memory.clock()),
            problems=problems,
            interrupted=bool(applied and applied.interrupted),
            next_moment=plan.next_moment if plan else "",
        )


def is_busy(error: ProblemError) -> bool:
    """Whether somebody else is at work on the state just now."""
    return any(problem.code == BUSY for problem in error.problems)


def seconds_until(moment: str, fleet: Fleet) -> float | None:
    at = parse_moment(moment)
    return None if at is None else max(0.0, (at - fleet.now()) / timedelta(seconds=1))
