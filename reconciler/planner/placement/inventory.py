"""Inventory: nodes and slots that can be given out, and who holds which of them.

Occupancy is derived from claims each time and stored nowhere as a flag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from reconciler.kinds.approval import HOST, approved_names
from reconciler.kinds.fleet_rules import DEFAULTS, policy_in
from reconciler.kinds.node.spec import NODES, NodeSpec, Slot
from reconciler.kinds.node_family import NODE_FAMILIES, NodeFamilySpec
from reconciler.kinds.policy import Strategy
from reconciler.model.host.capacity import Claim, ClaimState, Sharing
from reconciler.model.host.cpus import parse_cpus
from reconciler.model.host.evidence import GpuFact, NodeFacts, Observation
from reconciler.model.moment import parse_moment
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.planner.access.suspensions import in_force
from reconciler.planner.nodes.duplicate_gpus import NOWHERE, Sightings, read_sightings
from reconciler.planner.nodes.prepare import unprepared
from reconciler.planner.nodes.shared_devices import shared

OUT_OF_USE = ("unavailable", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class InventorySlot:
    """One slot of a node's spec, with what placement asks of it worked out once.

    `doubles` are the other slots, of whatever node, that name the same GPU; `elsewhere` are the
    other nodes that show it. `unnamed` is why specs do not offer it any more, `shared`
    what device it has that another slot of its node calls by another name.
    """

    name: str
    spec: Slot
    cpus: int
    approved: bool
    doubles: frozenset[str] = NOWHERE
    elsewhere: frozenset[str] = NOWHERE
    unnamed: str = ""
    shared: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A node as specs, suspensions and evidence show it; who holds its slots is in `Occupancy`.

    `blocked` is why the node itself is no node yet, `unnamed` why specs do not offer it any more,
    `unprepared` why tenants would not be kept apart on it. `doubt` is what is not known of it since
    the state was lost. `evidence_age` is None without an answer. `weight` is how much counts
    against it for what it `failed` at: the lightest are asked first. To `spread` is to take the
    emptiest node before one that is in use.
    """

    name: str
    spec: NodeSpec
    slots: tuple[InventorySlot, ...]
    approved: bool
    blocked: str = ""
    unnamed: str = ""
    unprepared: str = ""
    family: Resource[NodeFamilySpec] | None = None
    drivers: frozenset[str] | None = None
    gpus: Mapping[str, GpuFact] = field(default_factory=dict)
    observation: Observation | None = None
    evidence_age: timedelta | None = None
    evidence_limit: timedelta = timedelta(minutes=DEFAULTS.evidence.max_age_minutes)
    suspended: str = ""
    suspended_projects: Mapping[str, str] = field(default_factory=dict)
    foreign: tuple[str, ...] = ()
    unclaimed: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()
    doubt: str = ""
    failed: str = ""
    weight: int = 0
    spread: bool = False

    @property
    def facts(self) -> NodeFacts | None:
        return self.observation.facts if self.observation else None


class Occupancy:
    """Who is on one node: a mask of held slots, and the tenants and projects of its claims."""

    __slots__ = ("_projects", "_tenants", "mask", "projects", "tenants", "whole")

    def __init__(self) -> None:
        self.mask = 0
        self.whole = ""
        self.tenants: set[str] = set()
        self.projects: set[str] = set()
        self._tenants = self._projects = EVERYBODY

    def add(self, mask: int, tenant: str, project: str, *, whole_by: str = "") -> None:
        self.mask |= mask
        self.whole = self.whole or whole_by
        if tenant not in self.tenants:
            self.tenants.add(tenant)
            self._tenants = tenant_group("+".join(sorted(self.tenants)))
        if project not in self.projects:
            self.projects.add(project)
            self._projects = project_group("+".join(sorted(self.projects)))

    def group(self, sharing: str) -> str:
        """Who may still join this node. Two strangers on one host let nobody in."""
        if sharing == Sharing.ANY:
            return EVERYBODY
        return self._tenants if sharing == Sharing.TENANT else self._projects


EVERYBODY = ""
"""The group of a node that anybody may join."""


def tenant_group(tenant: str) -> str:
    return f"tenant:{tenant}"


def project_group(project: str) -> str:
    return f"project:{project}"


LEFT_ALONE = "left alone by plans that nobody is asked about"


def read_offers(
    desired: Desired,
    world: World,
    now: datetime,
    blocked: Mapping[Ref, str],
    preparing: Collection[Ref] = (),
) -> tuple[Offer, ...]:
    """Every node that git wants, by name; `blocked` says which of them cannot be used yet.

    Nodes that the plan is `preparing` are taken for prepared: nothing reaches them before that.
    """
    policy = policy_in(desired)
    limit = timedelta(minutes=policy.evidence.max_age_minutes)
    suspended = {s.scope: s.reason or "suspended" for s in in_force(world.suspensions, now)}
    of_projects = {k: v for k, v in suspended.items() if k.startswith("project/")}
    projects = {k.removeprefix("project/"): v for k, v in of_projects.items()}
    claimed = {(claim.node, claim.allocation_id) for claim in world.claims}
    doubts = {doubt.node: doubt.reason for doubt in world.doubts}
    nodes = tuple(NODES.of(desired))
    approvals = {node.ref.name: approved_names(node.spec) for node in nodes}
    counted = [node for node in nodes if HOST in approvals[node.ref.name]]
    doubles, sightings = _doubles(nodes), _sightings(nodes, counted, world, (now - limit, now))
    offers = []
    for node in nodes:
        approved = approvals[node.ref.name]
        seen = world.observations.get(node.ref.name)
        facts = seen.facts if seen else None
        offers.append(
            Offer(
                name=node.ref.name,
                spec=node.spec,
                slots=tuple(_slots(node, facts, doubles, sightings)),
                approved=HOST in approved,
                blocked=blocked.get(node.ref, ""),
                unprepared="" if node.ref in preparing else unprepared(node, world),
                family=(family := NODE_FAMILIES.get(desired, node.spec.family)),
                drivers=frozenset(family.spec.base.driver_branches) if family else None,
                gpus={gpu.uuid: gpu for gpu in (facts.gpus if facts else None) or ()},
                observation=seen,
                evidence_age=_age(seen, now),
                evidence_limit=limit,
                spread=policy.placement.strategy is Strategy.SPREAD,
                suspended=suspended.get(str(node.ref))
                or suspended.get("all", "")
                or (LEFT_ALONE if f"loop/{node.ref}" in desired.suspended else ""),
                suspended_projects=projects,
                foreign=_foreign(facts, world.state_id),
                unclaimed=_unclaimed(facts, world.state_id, node.ref.name, claimed),
                strange=sightings.strange.get(node.ref.name, ()),
                doubt=doubts.get(node.ref.name, ""),
                weight=(weight := _weight(node.ref.name, world, facts, now)),
                failed=world.failures[node.ref.name].told(now) if weight else "",
            )
        )
    return tuple(offers)


def read_held(offers: Iterable[Offer], claims: Iterable[Claim]) -> dict[str, Occupancy]:
    """Live claims per node, as masks over its slots."""
    positions = {offer.name: {s.name: at for at, s in enumerate(offer.slots)} for offer in offers}
    held: dict[str, Occupancy] = {name: Occupancy() for name in positions}
    for claim in claims:
        node = held.get(claim.node)
        if node is None or claim.state is ClaimState.FREED:
            continue
        slots = positions[claim.node]
        known = claim.slot in slots if claim.slot is not None else False
        # A claim on the whole node, or on a slot that the node no longer names, leaves nothing.
        mask = 1 << slots[claim.slot or ""] if known else (1 << len(slots)) - 1
        whole_by = str(claim.ref) if claim.slot is None else ""
        node.add(mask, claim.tenant, claim.project, whole_by=whole_by)
    return held


def _doubles(nodes: Iterable[Resource]) -> Mapping[str, frozenset[str]]:
    """Every `node/slot` that names a GPU which more than one slot names."""
    slots = [(slot.gpu.uuid, node, slot) for node in nodes for slot in node.spec.slots]
    counts = Counter(uuid for uuid, _, _ in slots)
    found: dict[str, set[str]] = {}
    for uuid, node, slot in slots if len(counts) < len(slots) else ():
        if counts[uuid] > 1:
            found.setdefault(uuid, set()).add(f"{node.ref.name}/{slot.name}")
    return {uuid: frozenset(places) for uuid, places in found.items()}


def _sightings(
    nodes: Iterable[Resource],
    counted: Iterable[Resource],
    world: World,
    fresh: tuple[datetime, datetime],
) -> Sightings:
    shown = {}
    for node in counted:
        seen = world.observations.get(node.ref.name)
        at = parse_moment(seen.at) if seen and seen.facts else None
        if at is None or not fresh[0] <= at <= fresh[1]:
            continue
        if seen and seen.facts and node.spec.admin.state not in OUT_OF_USE:
            shown[node.ref.name] = [gpu.uuid for gpu in seen.facts.gpus or ()]
    owners = ((slot.gpu.uuid, node.ref.name) for node in nodes for slot in node.spec.slots)
    return read_sightings(shown, owners)


def _slots(
    node: Resource[NodeSpec],
    facts: NodeFacts | None,
    doubles: Mapping[str, frozenset[str]],
    sightings: Sightings,
) -> Iterator[InventorySlot]:
    approved, twice = approved_names(node.spec), shared(node.spec, facts)
    for slot in node.spec.slots:
        yield InventorySlot(
            name=slot.name,
            spec=slot,
            cpus=len(parse_cpus(slot.cpus)),
            approved=slot.name in approved,
            doubles=doubles.get(slot.gpu.uuid, NOWHERE) - {f"{node.ref.name}/{slot.name}"},
            elsewhere=sightings.others(slot.gpu.uuid, node.ref.name),
            shared=twice.get(slot.name, ""),
        )


def _weight(node: str, world: World, facts: NodeFacts | None, now: datetime) -> int:
    failure = world.failures.get(node)
    return failure.weight(facts, now) if failure else 0


def _age(seen: Observation | None, now: datetime) -> timedelta | None:
    at = parse_moment(seen.at) if seen and seen.facts else None
    return None if at is None else now - at


def _foreign(facts: NodeFacts | None, state_id: str) -> tuple[str, ...]:
    found = (facts.descriptors if facts else None) or {}
    return tuple(sorted(id for id, state in found.items() if state != state_id))


def _unclaimed(
    facts: NodeFacts | None, state_id: str, node: str, claimed: Collection[tuple[str, str]]
) -> tuple[str, ...]:
    """Allocations of this state on the host without a claim: nobody knows which slots they use."""
    found = (facts.descriptors if facts else None) or {}
    ours = (id for id, state in found.items() if state == state_id)
    return tuple(sorted(id for id in ours if (node, id) not in claimed))
