"""The outcome of a plan: what will be in force once it is applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.kinds.contract import Context
from reconciler.model.plan.plan import Action
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref, parsed
from reconciler.model.spec.desired import Desired, Origin
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.effective_spec import in_force
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.diff.removals import stays
from reconciler.planner.lifecycle.templates import Renderer


def outcome(
    request: PlanRequest,
    everything: Sequence[Difference],
    differences: Sequence[Difference],
    refused: Mapping[Ref, Problem],
) -> Desired:
    """What will be in force: everything that is not asked for, or is refused, stays as it was
    recorded.

    But a person whom git no longer names opens nothing, though others who name them keep them on
    the books: revocation waits for nobody's document (rule 9). Unless the absence itself is in
    question: then whoever was let in stays so.
    """
    whole = {d.ref for d in differences if d.ref in refused and stays(d, refused[d.ref])}
    done = {
        d.ref for d in differences if d.ref not in refused or (_is_gone(d) and d.ref not in whole)
    }
    undone = {ref for d in everything if d.ref not in done for ref in (d.ref, d.former) if ref}
    return in_force(request.desired, request.world, undone, refused.keys() - whole)


def _is_gone(difference: Difference) -> bool:
    return difference.ref.kind == "user" and difference.action is Action.FORGET


def context_of(
    request: PlanRequest,
    desired: Desired | None = None,
    origins: Mapping[Ref, Origin] | None = None,
) -> Context:
    """What kinds may look at where `desired` is in force: by default everything that git wants."""
    renderer = Renderer(request.templates)
    return Context(
        desired=request.desired if desired is None else desired,
        world=request.world,
        now=request.now,
        render=renderer.render,
        sign=request.sign,
        origins=origins or {},
        template_digests=renderer.digests(),
        leases_from=request.leases_from,
        forced=parsed(request.forced.refs),
        volumes=request.world.volumes,
    )
