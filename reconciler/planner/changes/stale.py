"""Stale allocations: they stay in place, and their files on the host follow a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reconciler.kinds.allocation.storage import leftover
from reconciler.kinds.contract import Binding, Context
from reconciler.kinds.registry import KINDS
from reconciler.model.host.capacity import Placement, Shape
from reconciler.model.plan.drift import Drift
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded, World
from reconciler.planner.core.difference import Difference
from reconciler.planner.identity.accounts import account_of
from reconciler.planner.identity.render_hash import basis_of, is_basis, is_rerendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """An allocation in its place whose files are no longer made from what was recorded.

    `rerendered` says that only the program makes them otherwise. `drifted` is what its host shows
    otherwise than it was made, and `only_drifted` that there is nothing else about it.
    """

    binding: Binding
    resource: Resource
    basis: str
    rerendered: bool = False
    drifted: tuple[Drift, ...] = ()
    only_drifted: bool = False


MOVING = frozenset({Action.CREATE, Action.REPLACE, Action.RELEASE, Action.RENAME})
"""Actions that leave nothing to be kept in step meanwhile."""


def find_stale(context: Context, changed: Mapping[Ref, Difference]) -> Mapping[Ref, Stale]:
    """Every allocation that stays in place and whose files would now be made otherwise."""
    found: dict[Ref, Stale] = {}
    for recorded, resource in staying(context, changed, context.world.recorded):
        binding = binding_of(recorded, resource, context.world)
        made_from = KINDS[recorded.ref.kind].basis(binding, context)
        basis = basis_of(made_from)
        if not is_basis(recorded.basis, basis, made_from) or leftover(binding, context):
            rerendered = is_rerendered(recorded.basis, basis)
            found[resource.ref] = Stale(
                binding=binding, resource=resource, basis=basis, rerendered=rerendered
            )
    return found


def staying(
    context: Context, changed: Mapping[Ref, Difference], refs: Iterable[Ref]
) -> Iterator[tuple[Recorded, Resource]]:
    """Allocations among these that stay in place, each as recorded and as it will be.

    One that is renamed by this plan is listed under its new name.
    """
    renamed = {d.former: d.resource for d in changed.values() if d.action is Action.RENAME}
    resources = {**context.desired.resources, **{r: one for r, one in renamed.items() if r and one}}
    for ref in refs:
        recorded = context.world.recorded.get(ref)
        if recorded is None or not recorded.id or recorded.phase is not Phase.ACTIVE:
            continue
        resource, difference = resources.get(ref), changed.get(ref)
        moving = difference and difference.action in MOVING and not difference.finishing
        if resource is not None and not moving:
            yield recorded, resource


def binding_of(recorded: Recorded, resource: Resource | None, world: World) -> Binding:
    """A recorded allocation in its place; without a `resource`, one about to leave it."""
    uid, gid = account_of(recorded.id, recorded.ref.project, world.counters)
    return Binding(
        ref=resource.ref if resource else recorded.ref,
        id=recorded.id,
        login=recorded.login,
        placement=Placement(
            node=recorded.node, slots=recorded.slots, shape=recorded.shape or Shape.GPU_SLICE
        ),
        resource=resource,
        recorded=recorded,
        uid=uid,
        gid=gid,
    )
