"""Hosts are brought in line with a suspension, or with its end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from reconciler.model.plan.plan import Plan
from reconciler.model.plan.work import HostProgress
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Suspension, World
from reconciler.operations.apply.revocation import recorded_plan
from reconciler.operations.apply.walk import Walk
from reconciler.operations.fleet import Fleet
from reconciler.operations.observe import Looks, look, stale_nodes
from reconciler.operations.options import PlanOptions
from reconciler.operations.published.publish import publish
from reconciler.operations.signals import Interrupts
from reconciler.planner.access.suspensions import touched
from reconciler.store.journal import Journal


def suspended(one: Suspension) -> Suspended:
    return Suspended(
        scope=one.scope, reason=one.reason, actor=one.actor, since=one.since, until=one.until
    )


def carry_out(
    fleet: Fleet,
    journal: Journal,
    one: Suspension,
    on_progress: Progress,
    interrupts: Interrupts,
) -> Suspended:
    """Bring hosts in line with what counts now; the suspension itself holds in any case."""
    found = suspended(one)
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
    """A plan for these allocations, as last applied, after a look at hosts not seen of late."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """The outcome: allocations whose host shows the suspension, and the problems of the others."""

    scope: str
    reason: str
    actor: str
    since: str
    until: str = ""
    run: str = ""
    done: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionRequest:
    """What somebody asks for; `until` is None for no end."""

    scope: str
    reason: str
    until: datetime | None = None


Progress = Callable[[HostProgress], None]
