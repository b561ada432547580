"""Revocation: access is removed from hosts, with or without the lock.

Nothing but keys and sessions is touched, and nothing is recorded that somebody else has changed
meanwhile. What a host does not show stays a pending revocation, which the next apply carries out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from reconciler.model.moment import format_moment
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Change, Plan, Step
from reconciler.model.plan.verb import Verb
from reconciler.model.plan.work import HostProgress, StepOutcome, WaveOutcome
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Recorded, World
from reconciler.operations.apply.failures import tell
from reconciler.operations.apply.record import recorded_as
from reconciler.operations.apply.wave.work import Crew, Worked
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import host_of
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.plan import plan_from
from reconciler.operations.signals import Interrupts
from reconciler.planner.access.suspensions import touched
from reconciler.planner.core.effective_spec import recorded_of
from reconciler.store import revocation
from reconciler.store.journal import Journal

ROUNDS = 5
"""So often what somebody says meanwhile is taken in; each time takes a person's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """Allocations whose host shows the revocation, those that a run is working on, and problems."""

    done: frozenset[Ref] = frozenset()
    left: tuple[Step, ...] = ()
    problems: tuple[Problem, ...] = ()


def recorded_plan(fleet: Fleet, world: World, refs: Iterable[Ref]) -> tuple[Desired, Plan]:
    """A plan for these allocations, as if git wanted exactly what was applied."""
    living = [
        ref
        for ref, recorded in world.recorded.items()
        if recorded.phase is Phase.ACTIVE and not recorded.forgotten
    ]
    resources = {resource.ref: resource for resource in recorded_of(world, living)}
    desired = Desired(settings=fleet.settings, resources=resources, digest="")
    return desired, plan_from(fleet, desired, world, PlanOptions(only=tuple(map(str, refs))))


def suspended_on(world: World, nodes: Collection[str] | None = None) -> tuple[Ref, ...]:
    """Allocations of suspended people, on these nodes or on all."""
    refs = {ref for one in world.suspensions for ref in touched(world, one.scope)}
    return tuple(sorted(ref for ref in refs if nodes is None or world.recorded[ref].node in nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocations:
    """Carries revocations to hosts. A run that began at `since` or later counts as at work."""

    fleet: Fleet
    journal: Journal
    on_progress: Callable[[HostProgress], None]
    interrupts: Interrupts
    since: str

    def carry(self, find: Callable[[World], Sequence[Ref]]) -> Revoked:
        """Bring the allocations that `find` finds in line with what counts now; again, if that
        changes.
        """
        found = Revoked()
        for _ in range(ROUNDS):
            world = self.journal.world()
            refs = find(world)
            if not refs:
                return found
            found, is_sound = self._round(world, refs, found.done)
            if is_sound or self.interrupts.asked:
                break
        return found

    def _round(
        self, world: World, refs: Sequence[Ref], before: frozenset[Ref]
    ) -> tuple[Revoked, bool]:
        desired, plan = recorded_plan(self.fleet, world, refs)
        steps = [step for step in plan.steps if step.verb == Verb.SYNC]
        if not steps:
            return Revoked(done=before), True
        at_work = self.journal.enter("begin_revocation", revocation.begin, steps, self.since)
        crew = Crew(
            fleet=self.fleet,
            find=lambda node: host_of(self.fleet, desired, world, node),
            on_progress=self.on_progress,
            interrupts=self.interrupts,
        )
        outcomes: list[StepOutcome] = []
        is_sound = True
        for worked in crew.work([step for step in steps if step.node not in at_work]):
            outcomes += worked.judged
            is_sound = self._finish(world, plan, worked) and is_sound
        done = before | {one.step.ref for one in outcomes if one.ok}
        left = tuple(step for step in steps if step.node in at_work)
        return Revoked(done=done, left=left, problems=tuple(tell(outcomes))), is_sound

    def _finish(self, world: World, plan: Plan, worked: Worked) -> bool:
        at = format_moment(self.fleet.now())
        shown = {one.step.id for one in worked.judged if one.ok}
        refs = {one.step.ref for one in worked.judged}
        recorded = [
            pair
            for change in plan.active
            if change.ref in refs and shown.issuperset(change.steps)
            if (pair := _recorded(change, world, worked, at)) is not None
        ]
        outcome = WaveOutcome(steps=worked.judged, observations=tuple(worked.seen.values()))
        return self.journal.enter(
            "finish_revocation", revocation.finish, world.suspensions, outcome, recorded
        )


def _recorded(
    change: Change, world: World, worked: Worked, at: str
) -> tuple[Recorded, Recorded] | None:
    """What was recorded of it before and now; None for what was not recorded at all."""
    before = world.recorded.get(change.ref)
    steps = [one.step for one in worked.judged if one.step.ref == change.ref]
    return None if before is None else (before, recorded_as(change, before, steps, at))


def pending(steps: Iterable[Step]) -> Iterable[Problem]:
    """Revocations that a run will carry out, because it is at work on these hosts."""
    for step in steps:
        yield Problem(
            code="revocation_under_way",
            message=f"{step.ref} on {step.node}: {', '.join(step.revokes)} may still be inside",
            hint="the apply that works on this host shuts them out as soon as it is free",
            ref=str(step.ref),
        )
