"""Supply: SKUs that are offered although no healthy host can serve them.

Who is on a host does not count, nor what is put off: one that is drained, silent or not yet ready
may serve again, and nobody can say that it will not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.kinds.sku import SKUS, SkuSpec, SkuState
from reconciler.model.host.capacity import Isolation, Need, Shape
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.planner.placement.filters import REQUEST_RULES, judge
from reconciler.planner.placement.inventory import Occupancy, Offer

PUT_OFF = frozenset(
    {
        "node_draining",
        "suspended",
        "readiness_missing",
        "node_unreachable",
        "readiness_stale",
        "readiness_incomplete",
        "node_not_prepared",
        "foreign_descriptors",
        "unclaimed_descriptors",
        "node_in_doubt",
    }
)
"""Rules by which a node serves nobody just now, whatever it is."""

TOLD = 3


def need_of(sku: Resource[SkuSpec], tenant: str = "", project: str = "") -> Need:
    """A request for one of this SKU, by nobody in particular or by somebody of that project."""
    return Need(
        ref=Ref("allocation", "", ""),
        sku=sku.ref.name,
        shape=Shape(sku.spec.shape),
        slots=sku.spec.slots or 0,
        families=tuple(sku.spec.families),
        isolation=tuple(Isolation(word) for word in sku.spec.isolation),
        min_cpus_per_slot=sku.spec.min_cpus_per_slot,
        min_memory_gib_per_slot=sku.spec.min_memory_gib_per_slot,
        rdma=sku.spec.rdma,
        tenant=tenant,
        project=project,
    )


def unserved(desired: Desired, world: World, offers: Sequence[Offer]) -> Iterator[tuple[Ref, str]]:
    """Each SKU that was applied, is sold and cannot be served by any host, with why by node."""
    by_family: dict[str, list[Offer]] = {}
    for offer in offers:
        by_family.setdefault(offer.spec.family, []).append(offer)
    for sku in SKUS.of(desired):
        if sku.spec.state is SkuState.ACTIVE and sku.ref in world.recorded:
            near = [one for family in sku.spec.families for one in by_family.get(family, ())]
            reasons = _reasons(need_of(sku), near)
            if reasons is not None:
                yield sku.ref, "; ".join(reasons[:TOLD]) or "no host of its families"


def _reasons(need: Need, offers: Sequence[Offer]) -> list[str] | None:
    """Why each host cannot serve it; None as soon as one can, or may be able to."""
    reasons = []
    for offer in offers:
        verdict = judge(offer, Occupancy(), need)
        if not verdict.rule or verdict.rule in PUT_OFF:
            return None
        if verdict.rule not in REQUEST_RULES:
            reasons.append(f"{offer.name} {verdict.rule} ({verdict.detail})")
    return reasons
