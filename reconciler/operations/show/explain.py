"""`explain`: why each node can or cannot take an allocation."""

from __future__ import annotations

from dataclasses import replace

from reconciler.kinds.registry import KINDS
from reconciler.model.host.capacity import Candidate, Placement
from reconciler.model.problem import Problem, refuse
from reconciler.model.state.world import Recorded, World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.plan import plan_from
from reconciler.operations.references import in_git, ref_of, unknown
from reconciler.operations.specs import read_desired
from reconciler.operations.views import Explained
from reconciler.planner.core.seat import WITH_CAPACITY
from reconciler.planner.placement import explanation
from reconciler.planner.proof.overrides import vouched_for
from reconciler.store.snapshot import read_world


def explain(fleet: Fleet, ref_text: str) -> Explained:
    """Every node as the plan of this moment sees it for an allocation, all others in their places.

    Raises ProblemError `not_found`, or `usage` for a kind that asks for no place.
    """
    ref = ref_of(ref_text)
    with without_collector():
        with fleet.reading() as database:
            world = read_world(database)
        desired = read_desired(fleet)
        resource = desired.resources.get(ref)
        if resource is None:
            raise unknown(ref, "not in the specs", in_git(desired))
        if ref.kind not in WITH_CAPACITY:
            raise refuse("usage", f"{ref} asks for no place", "name an allocation")
        plan = plan_from(fleet, desired, world, PlanOptions())
        candidates = explanation.explain(desired, world, fleet.now(), ref, plan)
    change = next((change for change in plan.changes if change.ref == ref), None)
    recorded = world.recorded.get(ref)
    planned = change.placement if change else None
    return Explained(
        ref=str(ref),
        need=KINDS[ref.kind].needs(resource, desired),
        placement=planned or (_placement(recorded) if recorded else None),
        candidates=tuple(_marked(candidate, world) for candidate in candidates),
        problem=_without_this_hint(change.problem) if change and change.problem else None,
    )


def _marked(candidate: Candidate, world: World) -> Candidate:
    """A place that was freed by somebody's word says so to whoever could get it (REL-04)."""
    words = vouched_for(world.overrides, candidate.node, candidate.slots)
    if candidate.rule or not words:
        return candidate
    told = " · ".join(filter(None, (candidate.detail, f"unproved {words}")))
    return replace(candidate, detail=told)


def _without_this_hint(problem: Problem) -> Problem:
    """Nobody needs to be sent to where they are."""
    here = problem.hint == f"gpuaas explain {problem.ref}"
    return replace(problem, hint="") if here else problem


def _placement(recorded: Recorded) -> Placement | None:
    if not recorded.node or recorded.shape is None:
        return None
    return Placement(node=recorded.node, slots=recorded.slots, shape=recorded.shape)
