"""Allocations as people see them: phase, access, endpoints and health."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from reconciler.kinds.access.leave import DoorState, Leave, Roll, state_of
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.grant import GRANTS
from reconciler.kinds.project import PROJECTS
from reconciler.kinds.sku import price_in_force
from reconciler.kinds.user import USERS
from reconciler.model.host.capacity import Claim, ClaimState
from reconciler.model.host.evidence import Observation
from reconciler.model.plan.lifecycle import PHASE_OF, Phase, Stage, StageFacts, stage_of
from reconciler.model.ref import Ref
from reconciler.model.settings import Settings
from reconciler.model.state.world import Recorded, World
from reconciler.operations.bundle.bundle import installs_of, run_by
from reconciler.operations.endpoints import endpoints, published_config, way_in
from reconciler.operations.inventory.health import health_of, health_of_begun, uuids_of
from reconciler.operations.inventory.stock import Stock
from reconciler.operations.views import AllocationRow
from reconciler.planner.access.suspensions import scopes_at
from reconciler.planner.storage.references import name_now

UNBILLED = frozenset({Phase.QUARANTINED, Phase.RELEASING})
"""Nobody pays for what is on its way out."""


def allocation_rows(
    settings: Settings, world: World, stock: Stock, project: str = "", *, at_work: bool = False
) -> Iterator[AllocationRow]:
    """One for each that is recorded or holds a claim, by ref; with `project`, only of that one.

    `at_work`: an apply is under way.
    """
    claims: dict[Ref, list[Claim]] = defaultdict(list)
    for claim in world.claims:
        claims[claim.ref].append(claim)
    stages = _stages(world, claims)
    ways = {
        one.ref: way_in(one, published_config(settings, one.ref.project))
        for one in endpoints(settings, world, project)
    }
    roll, grants = _roll(world, stock.now), _grants(world)
    installs = installs_of(world)
    prices = {sku.ref.name: price_in_force(sku.spec, stock.now) for sku in stock.skus}
    for ref, stage in sorted(stages.items()):
        if project and ref.project != project:
            continue
        if ref not in world.recorded:
            yield _begun(ref, claims[ref], stage, world, at_work=at_work)
            continue
        one = world.recorded[ref]
        health = health_of(one, stage, world)
        spec = ALLOCATIONS.applied(one)
        price = prices.get(spec.sku)
        price = price if one.phase not in UNBILLED else None
        rate = Decimal(price.per_gpu_hour) * len(one.slots) if price else None
        yield AllocationRow(
            ref=str(ref),
            owner=spec.owner,
            sku=spec.sku,
            node=one.node,
            slots=one.slots,
            phase=one.phase,
            stage=stage,
            health=health.word,
            health_cause=health.cause,
            health_since=health.since,
            login=one.login,
            sessions=_sessions(one, world.observations.get(one.node)),
            until=one.expires_at,
            gpu_percent=_busy(one, world),
            observed_at=_observed_at(world.observations.get(one.node)),
            since=next((c.since for c in claims[ref] if c.allocation_id == one.id), ""),
            price_per_hour=format(rate, "f") if rate is not None else "",
            currency=price.currency if price else "",
            problem=one.problem or "",
            access=_people(one, roll, grants.get(ref, ()), stock.now),
            way_in=ways.get(ref, ""),
            storage=had_by(one.id, world),
            runtimes=run_by(one, installs),
        )


def stage_in(world: World, ref: Ref) -> Stage:
    """How far one allocation is that is recorded."""
    return _stages(world, {ref: [claim for claim in world.claims if claim.ref == ref]})[ref]


def _stages(world: World, claims: Mapping[Ref, list[Claim]]) -> Mapping[Ref, Stage]:
    """How far each is; what was begun and never recorded is among them."""
    asked: dict[Ref, set[str]] = defaultdict(set)
    for step in world.open_steps:
        asked[step.ref].add(step.verb)
    pending = {one.ref for one in world.revocations}
    refs = {*world.refs_of("allocation"), *claims}
    found = {}
    for ref in refs:
        states = {claim.state for claim in claims.get(ref, ())}
        one = world.recorded.get(ref)
        leaving = Phase.RELEASING if states and ClaimState.HELD not in states else None
        standing = StageFacts(
            phase=one.phase if one else leaving,
            asked=frozenset(asked.get(ref, ())),
            settled=one is None or bool(one.basis),
            access_pending=ref in pending,
            blocked=ClaimState.CLEANUP_BLOCKED in states,
        )
        found[ref] = stage_of(standing)
    return found


def _begun(
    ref: Ref, claims: list[Claim], stage: Stage, world: World, *, at_work: bool
) -> AllocationRow:
    """One that nobody has recorded: its first apply is under way, failed or was ended."""
    first = claims[0]
    health = health_of_begun(stage, at_work=at_work)
    return AllocationRow(
        ref=str(ref),
        owner="",
        sku="",
        node=first.node,
        slots=tuple(claim.slot for claim in claims if claim.slot),
        phase=PHASE_OF[stage],
        stage=stage,
        health=health.word,
        health_cause=health.cause,
        login=world.counters.login_of.get(first.allocation_id, ""),
        since=first.since,
    )


def _people(one: Recorded, roll: Roll, grants: Iterable[Leave], now: datetime) -> tuple[str, ...]:
    """The people who can log in, with a key; nobody while the allocation is not in use."""
    if one.phase is not Phase.ACTIVE:
        return ()
    own = (Leave(user=name, cause=one.ref) for name in ALLOCATIONS.applied(one).access)
    may = (x.user for x in (*own, *grants) if state_of(x, roll, now) is DoorState.ACTIVE)
    return tuple(sorted(set(may)))


def _grants(world: World) -> Mapping[Ref, Sequence[Leave]]:
    found: dict[Ref, list[Leave]] = defaultdict(list)
    for grant in GRANTS.recorded(world):
        spec, ref = GRANTS.applied(grant), grant.ref
        leave = Leave(
            user=spec.user, cause=ref, privilege=spec.privilege, expires_at=spec.expires_at
        )
        found[Ref("allocation", ref.project, spec.allocation)].append(leave)
    return found


def _roll(world: World, now: datetime) -> Roll:
    return Roll(
        people={one.ref.name: USERS.applied(one).is_active for one in USERS.recorded(world)},
        members={
            one.ref.name: frozenset(member.user for member in PROJECTS.applied(one).members)
            for one in PROJECTS.recorded(world)
        },
        suspended=scopes_at(world.suspensions, now),
    )


def _busy(one: Recorded, world: World) -> int | None:
    """How busy its cards are together, None unless all of them say so."""
    seen = world.observations.get(one.node)
    gpus = (seen.facts.gpus if seen and seen.facts else None) or ()
    cards = {gpu.uuid: gpu.utilization for gpu in gpus}
    told = [cards.get(uuid) for uuid in uuids_of(one, world)]
    known = [percent for percent in told if percent is not None]
    return sum(known) // len(known) if known and len(known) == len(told) else None


def _observed_at(seen: Observation | None) -> str:
    return seen.last_answer if seen is not None else ""


def _sessions(one: Recorded, seen: Observation | None) -> int | None:
    if seen is None or seen.facts is None or seen.facts.sessions is None:
        return None
    return seen.facts.sessions.get(one.login, 0)


def had_by(allocation_id: str, world: World) -> tuple[str, ...]:
    """`data rw at /data/data`, for each storage of an allocation."""
    having = world.attachments_by(allocation_id)
    return tuple(f"{name_now(one, world)} {one.mode} at {one.mount_path}" for one in having)
