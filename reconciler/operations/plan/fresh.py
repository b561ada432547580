"""A fresh plan: stale, doubted or endangered hosts are observed before it is made."""

from __future__ import annotations

from reconciler.model.plan.plan import Plan
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.observe import Looks, look, stale_nodes
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.plan import plan_from
from reconciler.operations.specs import read_at_rest
from reconciler.store.journal import Journal
from reconciler.store.tables import queue


def look_and_plan(
    fleet: Fleet, journal: Journal, options: PlanOptions, looks: Looks
) -> tuple[Desired, World, Plan]:
    """Observe nodes with old evidence or an unfinished step, then plan from what is true.

    A place is observed right before it is given to anybody: GPUs fail between two looks.
    """
    with without_collector():
        desired, world = read_at_rest(fleet), journal.world()
        if journal.has_unended():
            journal.close_open_steps()
        if given_up := _given_up(desired, world):
            journal.enter("stop_waiting", queue.leave, given_up)
        if strangers := _strangers(desired, world):
            journal.unsee(strangers)
        in_doubt = {step.node for step in world.open_steps}
        in_doubt.update(doubt.node for doubt in world.doubts)
        now = fleet.now()
        names = looks.due(in_doubt.union(stale_nodes(desired, world, now)), now)
        if names:
            look(fleet, journal, desired, names)
            world = journal.world()
        plan = plan_from(fleet, desired, world, options)
        while names := looks.due({claim.node for claim in plan.claims}, now):
            look(fleet, journal, desired, names)
            world = journal.world()
            plan = plan_from(fleet, desired, world, options)
        return desired, world, plan


def _strangers(desired: Desired, world: World) -> tuple[Ref, ...]:
    """Nodes that were observed once, never used, and that no file names any more."""
    if desired.blind:
        return ()
    wanted = desired.resources.keys() | desired.frozen | desired.absent.keys()
    wanted |= world.recorded.keys()
    held = {claim.node for claim in world.claims}
    seen = (Ref("node", "", name) for name in world.observations if name not in held)
    return tuple(ref for ref in seen if ref not in wanted and not desired.unread(ref))


def _given_up(desired: Desired, world: World) -> tuple[Ref, ...]:
    """Requests that wait, or gave up waiting, and that no document asks for any more.

    Nothing is given up while files cannot be read.
    """
    if desired.blind:
        return ()
    wanted = desired.resources.keys() | desired.frozen | desired.absent.keys()
    asked = (*world.waiting, *world.lapsed)
    return tuple(ref for ref in asked if ref not in wanted and not desired.unread(ref))
