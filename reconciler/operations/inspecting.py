"""Reading commands: what is known, from the store, and what placement would say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal

from reconciler.kinds.registry import KINDS
from reconciler.model.capacity import ClaimState, Placement
from reconciler.model.codec import encode
from reconciler.model.event import Event
from reconciler.model.evidence import Observation
from reconciler.model.lifecycle import Phase, RunState
from reconciler.model.problem import ProblemError, refuse
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.world import Recorded, World
from reconciler.operations.reading import read_desired
from reconciler.operations.taking_stock import (
    Stock,
    age_of,
    node_rows,
    sku_rows,
    slot_rows,
    take_stock,
)
from reconciler.operations.views import (
    AllocationRow,
    Explained,
    LastRun,
    NeedsYou,
    NodeRow,
    Shown,
    SkuRow,
    SlotRow,
    Status,
)
from reconciler.operations.wiring import Fleet, without_collector
from reconciler.planner import planner
from reconciler.specs.library import origins
from reconciler.store import history
from reconciler.store.snapshot import read_world

LAST_EVENTS = 20


def status(fleet: Fleet, project: str = "") -> Status:
    """The fleet at a glance; with `project`, only its allocations."""
    now = fleet.now()
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        stock = take_stock(fleet.settings, world, now)
        last = next(iter(history.runs(database, 1)), None)
    nodes, slots = node_rows(stock), slot_rows(stock)
    ages = [row.age for row in nodes if row.age is not None]
    allocations = tuple(_allocation_rows(world, stock, project))
    return Status(
        state_id=world.state_id,
        serial=world.serial,
        at=now.isoformat(timespec="seconds"),
        observed_age=max(ages, default=None),
        nodes=dict(sorted(Counter(row.posture for row in nodes).items())),
        gpus=dict(sorted(Counter(row.state for row in slots).items())),
        capacity=sku_rows(stock),
        needs_you=tuple(_needs_you(world, last, now)),
        allocations=allocations,
        last_run=LastRun(
            id=last.id,
            state=last.state,
            started=last.started,
            actor=last.actor,
            commit=last.commit,
        )
        if last
        else None,
    )


def nodes(fleet: Fleet) -> tuple[NodeRow, ...]:
    return node_rows(_stock(fleet))


def slots(fleet: Fleet) -> tuple[SlotRow, ...]:
    return slot_rows(_stock(fleet))


def capacity(fleet: Fleet) -> tuple[SkuRow, ...]:
    return sku_rows(_stock(fleet))


def events(fleet: Fleet, ref_text: str = "", after: int = 0) -> tuple[Event, ...]:
    """Events after the sequence number `after`, oldest first; of one resource, or all."""
    with fleet.reading() as database:
        return history.events(database, str(_ref(ref_text)) if ref_text else "", after)


def explain(fleet: Fleet, ref_text: str) -> Explained:
    """Every node as placement sees it for an allocation. Raises ProblemError `not_found`."""
    ref = _ref(ref_text)
    with without_collector():
        with fleet.reading() as database:
            world = read_world(database)
        desired = read_desired(fleet)
    resource = desired.resources.get(ref)
    if resource is None:
        raise _not_found(ref, "the specs")
    need = KINDS[ref.kind].needs(resource, desired)
    recorded = world.recorded.get(ref)
    return Explained(
        ref=str(ref),
        need=need,
        placement=_placement(recorded) if recorded else None,
        candidates=planner.explain(desired, world, fleet.now(), ref) if need else (),
    )


def show(fleet: Fleet, ref_text: str) -> Shown:
    """One resource in its four states. Raises ProblemError `not_found`."""
    ref = _ref(ref_text)
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        recorded = world.recorded.get(ref)
        found = history.events(database, str(ref), limit=LAST_EVENTS)
        steps = history.steps(database, str(ref))
        proofs = history.proofs(database, str(ref))
    resource = read_desired(fleet).resources.get(ref)
    if resource is None and recorded is None and not found:
        raise _not_found(ref, "specs or state")
    file = resource.file if resource else recorded.file if recorded else ""
    origin = origins(fleet.settings, {file}).get(file) if file else None
    return Shown(
        ref=str(ref),
        desired=resource.normal if resource else None,
        recorded=encode(recorded) if recorded else None,
        observed=_observed(world, ref, recorded),
        execution=steps,
        facts=_facts(recorded, world),
        claims=tuple(encode(claim) for claim in world.claims if claim.ref == ref),
        proofs=proofs,
        events=found,
        file=file,
        line=resource.line if resource else 0,
        commit=origin.commit if origin else "",
        author=origin.author if origin else "",
    )


def _stock(fleet: Fleet) -> Stock:
    with without_collector(), fleet.reading() as database:
        return take_stock(fleet.settings, read_world(database), fleet.now())


def _ref(text: str) -> Ref:
    ref = parse_ref(text)
    if ref is None:
        raise refuse(
            "not_found",
            f"{text!r} is no ref",
            "write kind/project/name, kind/name, or project/name for an allocation",
        )
    return ref


def _not_found(ref: Ref, where: str) -> ProblemError:
    return refuse("not_found", f"{ref} is not in {where}", "see what there is: gpuaas status")


def _placement(recorded: Recorded) -> Placement | None:
    if not recorded.node or recorded.shape is None:
        return None
    return Placement(node=recorded.node, slots=recorded.slots, shape=recorded.shape)


def _allocation_rows(world: World, stock: Stock, project: str) -> Iterator[AllocationRow]:
    prices = {sku.ref.name: sku.spec.prices[-1] for sku in stock.skus if sku.spec.prices}
    since = {claim.allocation_id: claim.since for claim in world.claims}
    for ref in sorted(ref for ref in world.recorded if ref.kind == "allocation"):
        if project and ref.project != project:
            continue
        one = world.recorded[ref]
        spec = one.normal["spec"]
        price = prices.get(spec["sku"])
        seen = world.observations.get(one.node)
        rate = Decimal(price.per_gpu_hour) * len(one.slots) if price else None
        yield AllocationRow(
            ref=str(ref),
            owner=spec["owner"],
            sku=spec["sku"],
            node=one.node,
            slots=one.slots,
            phase=one.phase,
            health=_health(one, seen),
            login=one.login,
            sessions=_sessions(one, seen),
            since=since.get(one.id, ""),
            price_per_hour=format(rate, "f") if rate is not None else "",
            currency=price.currency if price else "",
            problem=one.problem,
        )


def _health(one: Recorded, seen: Observation | None) -> str:
    """Whether the host shows what it must; `unknown` as long as it has not said."""
    if seen is None or seen.facts is None or seen.facts.paths is None:
        return "unknown"
    if one.phase is not Phase.ACTIVE:
        return "degraded"
    held = all(seen.facts.paths.get(path) == fact for path, fact in one.facts.items())
    return "healthy" if held else "degraded"


def _sessions(one: Recorded, seen: Observation | None) -> int | None:
    if seen is None or seen.facts is None or seen.facts.sessions is None:
        return None
    return seen.facts.sessions.get(one.login, 0)


def _observed(world: World, ref: Ref, recorded: Recorded | None) -> Mapping[str, object] | None:
    """What hosts said of it: a node's whole answer, or an allocation's own paths."""
    node = ref.name if ref.kind == "node" else recorded.node if recorded else ""
    seen = world.observations.get(node)
    if seen is None:
        return None
    if ref.kind == "node":
        observed: Mapping[str, object] = encode(seen)
        return observed
    paths = seen.facts.paths if seen.facts else None
    shown = {
        path: "unknown" if paths is None else paths.get(path, "absent")
        for path in (recorded.facts if recorded else {})
    }
    return {"node": node, "at": seen.at, "problem": seen.problem, "paths": shown}


def _facts(recorded: Recorded | None, world: World) -> Mapping[str, str]:
    """The lines people look for first."""
    if recorded is None or not recorded.id:
        return {}
    seen = world.observations.get(recorded.node)
    source = seen.facts.source if seen and seen.facts else "unknown"
    return {
        "where": f"{recorded.node}/{','.join(recorded.slots)}",
        "login": recorded.login,
        "phase": recorded.phase,
        "health": _health(recorded, seen),
        "evidence": f"{source}, {seen.at}" if seen else "never observed",
    }


def _needs_you(world: World, last: history.Run | None, now: datetime) -> Iterator[NeedsYou]:
    for claim in world.claims:
        if claim.state is ClaimState.CLEANUP_BLOCKED:
            where = f"{claim.node}/{claim.slot or '*'}"
            yield NeedsYou(kind="proof", text=f"{where} {claim.problem}", command="gpuaas apply")
    for ref, since in sorted(world.waiting.items(), key=lambda item: (item[1], item[0])):
        age = age_of(since, now)
        yield NeedsYou(
            kind="blocked",
            text=f"{ref} sku_unavailable, waiting {age if age is not None else '?'} s",
            command=f"gpuaas explain {ref}",
        )
    for name, seen in sorted(world.observations.items()):
        if seen.problem:
            yield NeedsYou(
                kind="unknown",
                text=f"node/{name} {seen.problem}: {seen.message}",
                command="gpuaas plan --refresh",
            )
    if last is not None and last.state in (RunState.FAILED, RunState.INTERRUPTED):
        yield NeedsYou(kind="failed", text=f"{last.id} {last.state}", command="gpuaas events")
