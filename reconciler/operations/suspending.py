"""`suspend` and `resume`: something is taken away at once, by somebody's word, and given back.

It needs no repository in order: hosts are told by what was last applied, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from reconciler.model.desired import Desired
from reconciler.model.lifecycle import Phase
from reconciler.model.moment import format_moment
from reconciler.model.plan import Plan
from reconciler.model.problem import Problem, refuse
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.work import HostProgress
from reconciler.model.world import Suspension, World
from reconciler.operations.accepting import insist_on
from reconciler.operations.interrupting import Interrupts
from reconciler.operations.observing import Looks, look, stale_nodes
from reconciler.operations.options import PlanOptions
from reconciler.operations.planning import plan_from
from reconciler.operations.publishing import publish
from reconciler.operations.walking import Walk
from reconciler.operations.wiring import Fleet
from reconciler.operations.writing import writing
from reconciler.planner.effective import recorded_of
from reconciler.planner.suspending import touched
from reconciler.specs.nearest import did_you_mean
from reconciler.store.journal import Journal

EVERYTHING = "all"
KINDS = ("node", "user", "project")

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
    """Take it away now. Raises ProblemError `not_found` or `usage`, and then nothing was done."""
    insist_on(word.reason)
    if word.until is not None and word.until <= fleet.now():
        raise refuse("usage", "its end is over already", "name a time to come")
    with writing(fleet, "suspend") as journal:
        scope = _known(journal.world(), word.scope)
        one = Suspension(
            scope=scope,
            reason=word.reason,
            actor=fleet.actor.name,
            since=format_moment(fleet.now()),
            until=format_moment(word.until) if word.until else "",
        )
        with interrupts:
            journal.suspend(one)
            return _carry_out(fleet, journal, one, on_progress, interrupts)


def resume(fleet: Fleet, word: Word, on_progress: Progress, interrupts: Interrupts) -> Suspended:
    """Give it back now. Raises ProblemError `not_found` or `usage`."""
    insist_on(word.reason)
    with writing(fleet, "resume") as journal:
        world = journal.world()
        one = next((s for s in world.suspensions if s.scope == word.scope), None)
        if one is None:
            known = [s.scope for s in world.suspensions]
            near = did_you_mean(word.scope, known)
            hint = f"{near} suspended now: {', '.join(known) or 'nothing is'}".strip()
            raise refuse("not_found", f"{word.scope} is not suspended", hint)
        with interrupts:
            journal.resume(one, word.reason)
            return _carry_out(fleet, journal, one, on_progress, interrupts)


def _known(world: World, scope: str) -> str:
    """The scope of something that is recorded; `all` is everything."""
    ref = parse_ref(scope)
    if scope == EVERYTHING or (ref is not None and ref.kind in KINDS and ref in world.recorded):
        return scope
    known = [str(ref) for ref in world.recorded if ref.kind in KINDS]
    hint = did_you_mean(scope, known) or "a node, user or project that was applied, or all"
    raise refuse("not_found", f"{scope} is nothing that can be suspended", hint)


def _carry_out(
    fleet: Fleet,
    journal: Journal,
    one: Suspension,
    on_progress: Progress,
    interrupts: Interrupts,
) -> Suspended:
    """Hosts are brought to what was applied and what counts of it now; the word stands anyway."""
    found = Suspended(
        scope=one.scope, reason=one.reason, actor=one.actor, since=one.since, until=one.until
    )
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
    """Of these allocations, as if git wanted just what was applied."""
    world = journal.world()
    living = [
        ref
        for ref, recorded in world.recorded.items()
        if recorded.phase is Phase.ACTIVE and not recorded.forgotten
    ]
    resources = {resource.ref: resource for resource in recorded_of(world, living)}
    desired = Desired(settings=fleet.settings, resources=resources, digest="")
    nodes = {world.recorded[ref].node for ref in refs}
    due = nodes.intersection(stale_nodes(desired, world, fleet.now()))
    if names := Looks().due(due, fleet.now()):
        look(fleet, journal, desired, names)
        world = journal.world()
    options = PlanOptions(only=tuple(map(str, refs)))
    return desired, world, plan_from(fleet, desired, world, options)
