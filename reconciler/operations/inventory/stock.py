"""Stock: nodes, slots and what is free of each SKU, from the state alone.

Neither specs nor hosts are asked, so that a look costs little and needs no repository in order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from reconciler.kinds import node_family as family_kind
from reconciler.kinds import policy as policy_kind
from reconciler.kinds import sku as sku_kind
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.node import node as node_kind
from reconciler.kinds.node.spec import AdminState
from reconciler.kinds.sku import SKUS, SkuSpec
from reconciler.model.host.capacity import Claim, ClaimState, SlotState
from reconciler.model.host.posture import NODE_REUSE, SLOT_REUSE, NodeTally, Posture, postures_of
from reconciler.model.moment import parse_moment
from reconciler.model.records import dataclass
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Override, Recorded, World
from reconciler.operations.views import NodeRow, SkuRow, SlotRow
from reconciler.planner.access.suspensions import in_force
from reconciler.planner.placement.filters import hindrance, judge
from reconciler.planner.placement.inventory import (
    InventorySlot,
    Occupancy,
    Offer,
    read_held,
    read_offers,
)
from reconciler.planner.placement.predicates import node_draining, readiness_stale
from reconciler.planner.placement.supply import need_of
from reconciler.planner.proof.overrides import vouched_for

PARSERS = {
    "node": node_kind.parse,
    "node_family": family_kind.parse,
    "policy": policy_kind.parse,
    "sku": sku_kind.parse,
}
"""The kinds that say what there is; the others are not loaded for a look."""

CLAIMED_AS = {
    ClaimState.HELD: SlotState.HELD,
    ClaimState.RELEASING: SlotState.RELEASING,
    ClaimState.CLEANUP_BLOCKED: SlotState.CLEANUP_BLOCKED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """What there is, as last recorded and observed.

    `ending` are the allocations whose time is over within a week, with when it is. Since when
    a node is as its document has it stands in `applied`, since when it is `suspended` there.
    """

    offers: tuple[Offer, ...]
    skus: tuple[Resource, ...]
    sold: Mapping[str, int]
    claims: tuple[Claim, ...]
    by_slot: Mapping[tuple[str, str | None], Claim]
    now: datetime
    ending: Mapping[str, str] = field(default_factory=dict)
    applied: Mapping[str, str] = field(default_factory=dict)
    suspended: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()


def take_stock(settings: Settings, world: World, now: datetime) -> Stock:
    desired = Desired(
        settings=settings,
        digest="",
        resources={
            ref: as_resource(world.recorded[ref]) for kind in PARSERS for ref in world.refs_of(kind)
        },
    )
    return Stock(
        offers=read_offers(desired, world, now, {}),
        skus=tuple(SKUS.of(desired)),
        sold=Counter(ALLOCATIONS.applied(one).sku for one in ALLOCATIONS.recorded(world)),
        claims=world.claims,
        by_slot={(claim.node, claim.slot): claim for claim in world.claims},
        now=now,
        overrides=world.overrides,
        applied={ref.name: world.recorded[ref].applied_at for ref in world.refs_of("node")},
        suspended={one.scope: one.since for one in in_force(world.suspensions, now)},
        ending={
            one.id: one.expires_at
            for one in world.recorded.values()
            if one.expires_at and _is_before(one.expires_at, now + SOON)
        },
    )


SOON = timedelta(days=7)


def _is_before(text: str, moment: datetime) -> bool:
    end = parse_moment(text)
    return end is not None and end < moment


def as_resource(recorded: Recorded) -> Resource:
    """A recorded resource in the form that planning reads."""
    spec = recorded.spec(PARSERS[recorded.ref.kind])
    return Resource(
        ref=recorded.ref,
        spec=spec,
        normal=recorded.normal,
        digest=recorded.digest,
        file=recorded.file,
    )


def node_rows(stock: Stock) -> tuple[NodeRow, ...]:
    return tuple(_node_row(stock, offer) for offer in stock.offers)


def slot_rows(stock: Stock) -> tuple[SlotRow, ...]:
    return tuple(row for offer in stock.offers for row in _slots_of(stock, offer))


def sku_rows(stock: Stock) -> tuple[SkuRow, ...]:
    """How often each SKU fits now, and would fit once what is being cleaned is clean."""
    room = _Room(stock)
    return tuple(_sku_row(stock, sku, room) for sku in stock.skus)


def age_of(at: str, now: datetime) -> int | None:
    moment = parse_moment(at)
    return None if moment is None else max(0, int((now - moment).total_seconds()))


def _postures(stock: Stock, offer: Offer, states: Mapping[SlotState, int]) -> tuple[Posture, ...]:
    """All that is to be said of a node whose slots are in these `states`."""
    whole = (offer.name, None) in stock.by_slot
    seen = offer.observation
    tally = NodeTally(
        usable=offer.spec.admin.state not in (AdminState.UNAVAILABLE, AdminState.LOST),
        answered=bool(seen and seen.facts and not seen.problem and not readiness_stale(offer)),
        draining=bool(node_draining(offer) or offer.suspended),
        whole=whole,
        slots=len(offer.slots),
        held=states[SlotState.HELD] + states[SlotState.RELEASING],
        free=states[SlotState.FREE] + states[SlotState.DRAINING],
        blocked=states[SlotState.CLEANUP_BLOCKED],
    )
    return postures_of(tally)


def _node_row(stock: Stock, offer: Offer) -> NodeRow:
    states = Counter(state for _, _, state, _ in _states(stock, offer))
    seen, admin = offer.observation, offer.spec.admin
    posture, *also = _postures(stock, offer, states)
    return NodeRow(
        name=offer.name,
        posture=posture,
        also=tuple(also),
        reuse=NODE_REUSE[posture],
        family=offer.spec.family,
        isolation=offer.spec.isolation,
        slots=len(offer.slots),
        held=states[SlotState.HELD] + states[SlotState.RELEASING],
        free=states[SlotState.FREE],
        admin=admin.state,
        reason=admin.reason or offer.suspended,
        age=age_of(seen.last_answer, stock.now) if seen else None,
        source=seen.facts.source if seen and seen.facts else "",
        problem=f"{seen.problem}: {seen.message}" if seen and seen.problem else offer.failed,
    )


def _states(
    stock: Stock, offer: Offer
) -> Iterator[tuple[InventorySlot, Claim | None, SlotState, str]]:
    """Each slot with who holds it, what it is called for that, and the cause where one is known."""
    whole = stock.by_slot.get((offer.name, None))
    for slot in offer.slots:
        claim = whole or stock.by_slot.get((offer.name, slot.name))
        if claim is None:
            yield (slot, None, *hindrance(offer, slot))
        else:
            yield slot, claim, CLAIMED_AS[claim.state], claim.problem


def _slots_of(stock: Stock, offer: Offer) -> Iterator[SlotRow]:
    states = tuple(_states(stock, offer))
    posture = _postures(stock, offer, Counter(state for _, _, state, _ in states))[0]
    for slot, claim, state, cause in states:
        yield SlotRow(
            node=offer.name,
            slot=slot.name,
            state=state,
            reuse=SLOT_REUSE[state],
            posture=posture,
            cause=cause,
            since=claim.state_since if claim else _since(stock, offer, state),
            allocation=str(claim.ref) if claim else "",
            gpu=slot.spec.gpu.uuid,
            model=slot.spec.gpu.model,
            numa=slot.spec.numa,
            vouched=vouched_for(stock.overrides, offer.name, (slot.name,)),
        )


BY_EVIDENCE = (SlotState.NOT_READY, SlotState.UNKNOWN)
"""States that the host has come to by what it said, or by its silence."""


def _since(stock: Stock, offer: Offer, state: SlotState) -> str:
    """Since when a slot that nobody holds cannot be given out: by a host, a word or a document."""
    seen = offer.observation
    if state is SlotState.FREE:
        return ""
    if state in BY_EVIDENCE:
        return (seen.unreachable_since or seen.at) if seen else ""
    if offer.suspended and offer.spec.admin.state is AdminState.ACTIVE:
        scopes = (f"node/{offer.name}", "all")
        return min(filter(None, map(stock.suspended.get, scopes)), default="")
    return stock.applied.get(offer.name, "")


class _Room:
    """Who is on which node now, after what is cleaned is clean, and after what ends soon."""

    def __init__(self, stock: Stock) -> None:
        clean = [claim for claim in stock.claims if claim.state is ClaimState.HELD]
        staying = [claim for claim in clean if claim.allocation_id not in stock.ending]
        self.now = read_held(stock.offers, stock.claims)
        same = len(clean) == len(stock.claims)
        self.after_cleanup = self.now if same else read_held(stock.offers, clean)
        self.after_expiries = read_held(stock.offers, staying) if stock.ending else None
        self.offers: dict[str, list[Offer]] = defaultdict(list)
        for offer in stock.offers:
            self.offers[offer.spec.family].append(offer)
        self.widest = max((len(offer.slots) for offer in stock.offers), default=0)
        self.by = max(stock.ending.values(), default="")

    def fitting(self, sku: Resource[SkuSpec], held: Mapping[str, Occupancy]) -> int:
        """How many fit, each node counted for somebody who may share it with who is there."""
        slots, count = sku.spec.slots or 0, 0
        for family in set(sku.spec.families):
            for offer in self.offers.get(family, ()):
                here = held[offer.name]
                near = need_of(sku, min(here.tenants, default=""), min(here.projects, default=""))
                verdict = judge(offer, here, near)
                if not verdict.rule:
                    count += verdict.usable.bit_count() // slots if slots else 1
        return count


def _sku_row(stock: Stock, sku: Resource[SkuSpec], room: _Room) -> SkuRow:
    price = sku_kind.price_in_force(sku.spec, stock.now)
    free = room.fitting(sku, room.now)
    same = room.after_cleanup is room.now
    after_cleanup = free if same else room.fitting(sku, room.after_cleanup)
    later = room.after_expiries
    return SkuRow(
        sku=sku.ref.name,
        shape=sku.spec.shape,
        gpus=sku.spec.slots or room.widest,
        free=free,
        after_cleanup=after_cleanup,
        after_expiries=after_cleanup if later is None else room.fitting(sku, later),
        by=room.by,
        held=stock.sold.get(sku.ref.name, 0),
        price_per_gpu_hour=price.per_gpu_hour if price else "",
        currency=price.currency if price else "",
    )
