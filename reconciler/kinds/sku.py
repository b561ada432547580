"""Sku: something that people order, with its outcome and a price list that only grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from operator import itemgetter

from reconciler.kinds.approval import HOST, approved_by_family
from reconciler.kinds.checks.findings import check_prices, finding, same_moment, warning
from reconciler.kinds.node.spec import NodeSpec, Slot
from reconciler.kinds.plain import NO_HOST_EFFECTS
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.host.capacity import Isolation, Shape
from reconciler.model.host.cpus import count_cpus
from reconciler.model.moment import parse_moment
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Reference, Resource

NAME = "Sku"

FIELD_RULES: Mapping[str, str] = {
    "labels": "live",
    "spec.displayName": "none",
    "spec.shape": "refuse while used",
    "spec.slots": "refuse while used",
    "spec.families": "new placements",
    "spec.isolation": "refuse while used",
    "spec.minCpusPerSlot": "new placements",
    "spec.minMemoryGiBPerSlot": "new placements",
    "spec.rdma": "new placements",
    "spec.rootAccess": "new placements",
    "spec.prices": "none",
    "spec.prices[]": "immutable once recorded",
    "spec.state": "none",
}


class SkuState(StrEnum):
    ACTIVE = "active"
    DEPRECATED = "deprecated"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPrice:
    from_: str
    per_gpu_hour: str
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkuSpec:
    """`slots` is None for baremetal: every slot of one node."""

    display_name: str
    shape: Shape
    families: tuple[str, ...]
    isolation: tuple[Isolation, ...]
    prices: tuple[GpuPrice, ...]
    slots: int | None = None
    min_cpus_per_slot: int = 0
    min_memory_gib_per_slot: int = 0
    rdma: bool = False
    root_access: bool = False
    state: SkuState = SkuState.ACTIVE


def parse(spec: Mapping[str, object], name: str) -> SkuSpec:
    sku = decode(SkuSpec, spec)
    return replace(
        sku,
        families=tuple(sorted(sku.families)),
        isolation=tuple(sorted(sku.isolation)),
        prices=tuple(replace(p, from_=same_moment(p.from_) or p.from_) for p in sku.prices),
    )


SKUS = TypedSpecs(kind="sku", parse=parse)


def refs(resource: Resource[SkuSpec]) -> Iterator[Reference]:
    for family in resource.spec.families:
        yield Reference(ref=Ref("node_family", "", family), path=("spec", "families", family))


def check(resource: Resource[SkuSpec], desired: Desired) -> Iterator[Problem]:
    spec: SkuSpec = resource.spec
    if spec.shape is Shape.GPU_SLICE and spec.slots is None:
        message = "a gpu_slice says how many slots it has"
        yield finding(resource, ("spec",), "field_missing", message, "state spec.slots")
    if spec.shape is Shape.BAREMETAL and spec.slots is not None:
        message = "baremetal is every slot of a host, however many these are"
        yield finding(resource, ("spec", "slots"), "field_forbidden", message, "take it out")
    if spec.root_access and spec.shape is not Shape.BAREMETAL and set(spec.isolation) != {"vm"}:
        message = "root on a host that others share"
        hint = "rootAccess needs shape baremetal, or isolation [vm]"
        yield finding(resource, ("spec", "rootAccess"), "sku_unsound", message, hint)
    yield from check_prices(resource, [price.from_ for price in spec.prices])
    if not has_capacity(spec, desired):
        message = "no approved slots of any node can serve this SKU"
        hint = "approve slots of its families and isolation, or lower what it promises"
        yield warning(resource, ("spec",), "sku_without_capacity", message, hint)


def unsupported(resource: Resource[SkuSpec]) -> str:
    spec: SkuSpec = resource.spec
    later = [f"isolation {word}" for word in spec.isolation if word is Isolation.VM]
    if spec.rdma and Isolation.ACCOUNT in spec.isolation:
        # Its slice opens GPUs alone; what cannot be opened must not be sold.
        later.append("rdma with isolation account")
    return ", ".join([*later, "rootAccess"] if spec.root_access else later)


needs, basis, steps, expected = NO_HOST_EFFECTS


def price_in_force(spec: SkuSpec, now: datetime) -> GpuPrice | None:
    """The price that counts now; one that is announced does not yet."""
    moments = ((parse_moment(price.from_), price) for price in spec.prices)
    past = [(moment, price) for moment, price in moments if moment and moment <= now]
    return max(past, key=itemgetter(0))[1] if past else None


def has_capacity(spec: SkuSpec, desired: Desired) -> bool:
    """Whether some node could serve it if nobody else were there."""
    nodes = approved_by_family(desired)
    return any(
        _serves(spec, node.spec, names)
        for family in set(spec.families)
        for node, names in nodes.get(family, ())
    )


def _serves(spec: SkuSpec, node: NodeSpec, approved: frozenset[str]) -> bool:
    if node.family not in spec.families or node.isolation not in spec.isolation:
        return False
    if HOST not in approved or spec.shape not in node.shapes:
        return False
    fitting = sum(slot.name in approved and _keeps_promise(spec, slot) for slot in node.slots)
    return fitting >= (spec.slots or len(node.slots))


def _keeps_promise(spec: SkuSpec, slot: Slot) -> bool:
    return (
        slot.disabled is None
        and slot.memory_gib >= spec.min_memory_gib_per_slot
        and (not spec.min_cpus_per_slot or count_cpus(slot.cpus) >= spec.min_cpus_per_slot)
        and (not spec.rdma or (slot.nic is not None and slot.nic.rdma))
    )
