"""`suspend` and `resume`: something is taken away at once, by somebody's word, and given back.

It needs no repository in order: hosts are told by what was last applied, and of nothing else. To
take away needs no lock either (rule 25); to give back waits for it. For the loop, or a part of what
it does, no host is told anything: the next plan that nobody is asked about leaves it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from reconciler.model.moment import format_moment
from reconciler.model.plan.plan import Plan
from reconciler.model.plan.work import HostProgress
from reconciler.model.problem import Problem, ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.lock import NO_PATIENCE
from reconciler.model.state.world import Suspension, World
from reconciler.operations.access.revocation import Revocations, pending, recorded_plan
from reconciler.operations.access.suspension_scope import is_of_loop, known_scope, of_loop
from reconciler.operations.apply.walk import Walk
from reconciler.operations.drift.accept import insist_on
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import beside, writing
from reconciler.operations.observe import Looks, look, stale_nodes
from reconciler.operations.options import PlanOptions
from reconciler.operations.published.publish import publish
from reconciler.operations.signals import Interrupts
from reconciler.planner.access.suspensions import touched
from reconciler.specs.read.suggest import did_you_mean
from reconciler.store.file.lock import holder
from reconciler.store.journal import Journal

Progress = Callable[[HostProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What somebody says: `until` is None for as long as nobody says otherwise."""

    scope: str
    reason: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """What became of it: allocations whose host shows it, and the problems of the others."""

    scope: str
    reason: str
    actor: str
    since: str
    until: str = ""
    run: str = ""
    done: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    interrupted: bool = False


def suspend(fleet: Fleet, word: Word, on_progress: Progress, interrupts: Interrupts) -> Suspended:
    """Take it away now. Raises ProblemError `not_found` or `usage`, and then nothing was done.

    It is on the books before anybody is waited for. Whoever has the lock goes on: hosts that he is
    not at work on are told here, and the others by him, as soon as he is done there.
    """
    insist_on(word.reason)
    if word.until is not None and word.until <= fleet.now():
        raise refuse("usage", "its end is over already", "name a time to come")
    with interrupts:
        one = _say(fleet, word)
        if is_of_loop(one.scope):
            return _suspended(one)
        try:
            with writing(replace(fleet, patience=NO_PATIENCE), "suspend") as journal:
                return _carry_out(fleet, journal, one, on_progress, interrupts)
        except ProblemError as error:
            if any(problem.code != "state_locked" for problem in error.problems):
                raise
        return _carry_out_beside(fleet, one, on_progress, interrupts)


def _say(fleet: Fleet, word: Word) -> Suspension:
    """Written down, in the state that is in its place afterwards: another may be restored."""
    try:
        return _say_beside(fleet, word)
    except ProblemError as error:
        if any(problem.code != "state_older" for problem in error.problems):
            raise
    with writing(fleet, "suspend"):
        """It is brought up to date by that."""
    return _say_beside(fleet, word)


def _say_beside(fleet: Fleet, word: Word) -> Suspension:
    while True:
        with beside(fleet) as journal:
            file = fleet.database_file.stat().st_ino
            one = Suspension(
                scope=known_scope(fleet, journal.world(), word.scope),
                reason=word.reason,
                actor=fleet.actor.name,
                since=format_moment(fleet.now()),
                until=format_moment(word.until) if word.until else "",
            )
            journal.suspend(one)
        if fleet.database_file.stat().st_ino == file:
            return one


def _carry_out_beside(
    fleet: Fleet, one: Suspension, on_progress: Progress, interrupts: Interrupts
) -> Suspended:
    """While somebody else has the lock; what is published is brought in line by him."""
    who = holder(fleet.state / "lock")
    with beside(fleet) as journal:
        revocations = Revocations(
            fleet=fleet,
            journal=journal,
            on_progress=on_progress,
            interrupts=interrupts,
            since=who.since if who else format_moment(fleet.now()),
        )
        found = revocations.carry(lambda world: touched(world, one.scope))
    return Suspended(
        scope=one.scope,
        reason=one.reason,
        actor=one.actor,
        since=one.since,
        until=one.until,
        done=tuple(sorted(map(str, found.done))),
        problems=(*found.problems, *pending(found.left)),
        interrupted=interrupts.asked,
    )


def resume(fleet: Fleet, word: Word, on_progress: Progress, interrupts: Interrupts) -> Suspended:
    """Give it back now. Raises ProblemError `not_found` or `usage`."""
    insist_on(word.reason)
    with writing(fleet, "resume") as journal:
        world = journal.world()
        scope = of_loop(word.scope) or word.scope
        one = next((s for s in world.suspensions if s.scope == scope), None)
        if one is None:
            known = [s.scope for s in world.suspensions]
            near = did_you_mean(word.scope, known)
            hint = f"{near} suspended now: {', '.join(known) or 'nothing is'}".strip()
            raise refuse("not_found", f"{word.scope} is not suspended", hint)
        with interrupts:
            journal.resume(one, word.reason)
            return _carry_out(fleet, journal, one, on_progress, interrupts)


def _suspended(one: Suspension) -> Suspended:
    return Suspended(
        scope=one.scope, reason=one.reason, actor=one.actor, since=one.since, until=one.until
    )


def _carry_out(
    fleet: Fleet,
    journal: Journal,
    one: Suspension,
    on_progress: Progress,
    interrupts: Interrupts,
) -> Suspended:
    """Hosts are brought to what was applied and what counts of it now; the word stands anyway."""
    found = _suspended(one)
    refs = touched(journal.world(), one.scope)
    if not refs:
        return found
    desired, world, plan = _plan(fleet, journal, refs)
    if not plan.active:
        return found
    walk = Walk(
        fleet=fleet,
        journal=journal,
        plan=plan,
        desired=desired,
        world=world,
        options=PlanOptions(only=tuple(map(str, refs))),
        on_progress=on_progress,
        interrupts=interrupts,
    )
    run = walk.run(saved=False)
    unpublished = publish(fleet, journal.world())
    return Suspended(
        scope=one.scope,
        reason=one.reason,
        actor=one.actor,
        since=one.since,
        until=one.until,
        run=run,
        done=tuple(sorted(str(ref) for ref in walk.settled)),
        problems=(*walk.problems, *unpublished),
        interrupted=walk.interrupted,
    )


def _plan(fleet: Fleet, journal: Journal, refs: tuple[Ref, ...]) -> tuple[Desired, World, Plan]:
    """Of these allocations, as they were last applied, after a look at hosts not seen of late."""
    world = journal.world()
    desired, plan = recorded_plan(fleet, world, refs)
    nodes = {world.recorded[ref].node for ref in refs}
    due = nodes.intersection(stale_nodes(desired, world, fleet.now()))
    names = Looks().due(due, fleet.now())
    if not names:
        return desired, world, plan
    look(fleet, journal, desired, names)
    world = journal.world()
    desired, plan = recorded_plan(fleet, world, refs)
    return desired, world, plan
