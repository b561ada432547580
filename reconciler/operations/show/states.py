"""`show --states`: the four states of one resource side by side, none taken for another.

What git wants, what hosts say, what is being done, and what is shown of it all. The last is made
anew from the other three each time, and says when it rests on evidence that is too old.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from reconciler.kinds.node_family import NODE_FAMILIES
from reconciler.model.host.capacity import Claim, ClaimState
from reconciler.model.host.evidence import Check, CheckResult
from reconciler.model.host.facts.named_fact import is_unknown
from reconciler.model.moment import format_age
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Recorded, World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.inventory.allocations import allocation_rows
from reconciler.operations.inventory.stock import node_rows, slot_rows, take_stock
from reconciler.operations.references import in_neither, ref_of
from reconciler.operations.specs import read_desired
from reconciler.planner.core.facts import differing
from reconciler.planner.placement.inventory import Offer, read_offers
from reconciler.planner.placement.readiness import readiness
from reconciler.store.snapshot import read_world

NOTHING, UNSEEN = "-", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """One thing about it in its four states. `stale`: what is shown rests on old evidence."""

    what: str
    desired: str
    observed: str
    execution: str
    projected: str
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """`observed_at` and `by` say when its host last answered, and whether it is a real one."""

    ref: str
    rows: tuple[StateRow, ...]
    observed_at: str = ""
    by: str = ""


def states(fleet: Fleet, ref_text: str) -> States:
    """Raises ProblemError `not_found`."""
    ref = ref_of(ref_text)
    with without_collector():
        with fleet.reading() as database:
            world = read_world(database)
        desired = read_desired(fleet)
    return states_of(ref, desired, world, fleet.now())


def states_of(ref: Ref, desired: Desired, world: World, now: datetime) -> States:
    resource, recorded = desired.resources.get(ref), world.recorded.get(ref)
    if resource is None and recorded is None and not _claims(world, ref):
        raise in_neither(ref, desired, world)
    node = world.node_of(ref)
    seen = world.observations.get(node)
    rows = {"node": _of_node, "allocation": _of_allocation}.get(ref.kind, _of_other)
    return States(
        ref=str(ref),
        rows=tuple(rows(ref, desired, world, now)),
        observed_at=seen.at if seen else "",
        by=seen.facts.source if seen and seen.facts else "",
    )


def _of_node(ref: Ref, desired: Desired, world: World, now: datetime) -> Iterator[StateRow]:
    stock = take_stock(desired.settings, world, now)
    shown = next((row for row in node_rows(stock) if row.name == ref.name), None)
    offers = read_offers(desired, world, now, {})
    offer = next((one for one in offers if one.name == ref.name), None)
    stale = offer is None or _is_stale(offer)
    yield StateRow(
        what="node",
        desired=_wanted_of(offer) if offer else "not in the specs",
        observed=_evidence(offer, desired) if offer else UNSEEN,
        execution=_doing(world, ref, list(world.claims_on(ref.name))),
        projected=shown.posture if shown else "never applied",
        stale=stale,
    )
    rows = {row.slot: row for row in slot_rows(stock) if row.node == ref.name}
    for slot in offer.slots if offer else ():
        there = slot.spec.gpu.uuid in offer.gpus if offer else False
        told = offer is not None and offer.facts is not None and offer.facts.gpus is not None
        held = [c for c in world.claims_on(ref.name) if c.slot in (slot.name, None)]
        row = rows.get(slot.name)
        yield StateRow(
            what=slot.name,
            desired="approved" if slot.approved else "not approved",
            observed=("card seen" if there else "card not seen") if told else UNSEEN,
            execution=_doing(world, None, held),
            projected=row.state if row else "never applied",
            stale=stale,
        )


def _of_allocation(ref: Ref, desired: Desired, world: World, now: datetime) -> Iterator[StateRow]:
    resource, recorded = desired.resources.get(ref), world.recorded.get(ref)
    stock = take_stock(desired.settings, world, now)
    rows = allocation_rows(desired.settings, world, stock, ref.project)
    shown = next((row for row in rows if row.ref == str(ref)), None)
    node = shown.node if shown else ""
    offer = next((one for one in stock.offers if one.name == node), None)
    held = _claims(world, ref)
    yield StateRow(
        what="allocation",
        desired=f"{resource.file}:{resource.line}" if resource else "not in the specs",
        observed=_seen_of(recorded, world),
        execution=_doing(world, ref, held),
        projected=f"{shown.phase}, {shown.health}" if shown else NOTHING,
        stale=offer is None or _is_stale(offer),
    )
    pin = (resource.spec.node or "any node") if resource else NOTHING
    yield StateRow(
        what="place",
        desired=f"{resource.spec.sku} on {pin}" if resource else NOTHING,
        observed=_described_on(recorded, world),
        execution=", ".join(f"{c.node}/{c.slot or '*'} {c.state}" for c in held) or NOTHING,
        projected=f"{node}/{','.join(shown.slots)}" if shown and node else NOTHING,
        stale=offer is None or _is_stale(offer),
    )


def _of_other(ref: Ref, desired: Desired, world: World, now: datetime) -> Iterator[StateRow]:
    """What has no place on a host: nobody observes it, and it is done as soon as it is recorded."""
    resource, recorded = desired.resources.get(ref), world.recorded.get(ref)
    same = resource is not None and recorded is not None and resource.digest == recorded.digest
    yield StateRow(
        what=ref.kind,
        desired=f"{resource.file}:{resource.line}" if resource else "not in the specs",
        observed=NOTHING,
        execution=f"applied {recorded.applied_at}" if recorded else NOTHING,
        projected="in force" if same else "as applied before" if recorded else "never applied",
    )


def _wanted_of(offer: Offer) -> str:
    sold = ", ".join(sorted(str(shape) for shape in offer.spec.shapes))
    return f"{offer.spec.admin.state}, sells {sold}"


def _evidence(offer: Offer, desired: Desired) -> str:
    """What does not pass, worst first; or that all does, and how old that is."""
    if offer.facts is None:
        return UNSEEN
    family = NODE_FAMILIES.get(desired, offer.spec.family)
    checks: list[Check] = list(readiness(offer, family.spec if family else None))
    for result in (CheckResult.FAIL, CheckResult.UNKNOWN):
        found = [f"{one.name}: {one.value}" for one in checks if one.result is result]
        if found:
            return "; ".join(found)
    age = offer.evidence_age
    return f"sound {format_age(age.total_seconds())} ago" if age is not None else "sound"


def _is_stale(offer: Offer) -> bool:
    return offer.evidence_age is None or offer.evidence_age > offer.evidence_limit


def _doing(world: World, ref: Ref | None, held: Sequence[Claim]) -> str:
    """Steps without an end, and cleanups that have none yet."""
    steps = [
        f"{one.verb} {one.state}"
        for one in world.open_steps
        if ref in (one.ref, Ref("node", "", one.node))
    ]
    ending = [
        f"{c.state} {c.slot or c.node} of {c.ref}" for c in held if c.state is not ClaimState.HELD
    ]
    return "; ".join((*steps, *ending)) or NOTHING


def _claims(world: World, ref: Ref) -> list[Claim]:
    return [claim for claim in world.claims if claim.ref == ref]


def _seen_of(recorded: Recorded | None, world: World) -> str:
    if recorded is None or not recorded.node:
        return NOTHING
    seen = world.observations.get(recorded.node)
    found = [shown for _, shown, _ in differing(seen.facts if seen else None, recorded.facts)]
    wrong = sum(not is_unknown(shown) for shown in found)
    if wrong or found:
        return f"{wrong} of {len(recorded.facts)} facts differ" if wrong else UNSEEN
    return "as it was made"


def _described_on(recorded: Recorded | None, world: World) -> str:
    """Where hosts say that it is, wherever it should be."""
    if recorded is None:
        return NOTHING
    told = [
        node
        for node, one in sorted(world.observations.items())
        if one.facts and recorded.id in (one.facts.descriptors or {})
    ]
    if told:
        return f"descriptor on {', '.join(told)}"
    seen = world.observations.get(recorded.node)
    known = seen is not None and seen.facts is not None and seen.facts.descriptors is not None
    return "no descriptor" if known else UNSEEN
