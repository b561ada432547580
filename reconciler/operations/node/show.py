"""`node show`: what git says of a node, its approvals, and what its host last showed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from reconciler.kinds.access.ssh_key import SshKey, parse_public_key
from reconciler.kinds.allocation.containers import allows_containers
from reconciler.kinds.approval import HOST, approved_names
from reconciler.kinds.node.host import hardening
from reconciler.kinds.node.spec import Admin, Identity, NodeSpec, Slot, Ssh, control_login
from reconciler.kinds.node_family import NODE_FAMILIES, NodeFamilySpec
from reconciler.model.host.capacity import Claim, Isolation
from reconciler.model.host.evidence import Check, Observation
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.inventory.stock import CLAIMED_AS, age_of
from reconciler.operations.references import node_of
from reconciler.operations.specs import origin_of, read_desired
from reconciler.planner.placement.filters import hindrance
from reconciler.planner.placement.inventory import Offer, read_offers
from reconciler.planner.placement.readiness import readiness
from reconciler.planner.proof.overrides import vouched_for
from reconciler.store.snapshot import read_world


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """What an approval still covers.

    Of names that none covers, `by` is empty and `fallen` says whether they were approved before
    they changed.
    """

    covers: tuple[str, ...]
    by: str = ""
    at: str = ""
    fallen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotShown:
    """A slot, whether it may be given out, and who has it or why nobody can.

    `vouched` is by whose word it was once freed without a proof; that stays.
    """

    slot: Slot
    approved: bool
    state: str
    cause: str = ""
    allocation: str = ""
    vouched: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShown:
    """`age` is the seconds since the host last answered; None = never. `source` is host or standin.

    `identity` is None for isolation directory; `fingerprints` are those of its host keys.
    `failed` is what counts against it for now. `readiness` decides about placement; `hardening` is
    told, and what fails there is not enforced.
    """

    name: str
    file: str
    line: int
    address: str
    ssh: Ssh
    family: str
    isolation: str
    sharing: str
    admin: Admin
    identity: Identity | None = None
    fingerprints: tuple[str, ...] = ()
    commit: str = ""
    author: str = ""
    approvals: tuple[InForce, ...] = ()
    slots: tuple[SlotShown, ...] = ()
    readiness: tuple[Check, ...] = ()
    hardening: tuple[Check, ...] = ()
    source: str = ""
    age: int | None = None
    failed: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def survey(fleet: Fleet, name: str) -> NodeShown:
    """One node, from specs and state; no host is asked. Raises ProblemError `not_found`."""
    with without_collector():
        desired = read_desired(fleet)
        node = node_of(desired, name)
        with fleet.reading() as database:
            world = read_world(database)
        offers = read_offers(desired, world, fleet.now(), {})
    offer = next(one for one in offers if one.name == name)
    spec: NodeSpec = node.spec
    seen = offer.observation
    origin = origin_of(fleet, node)
    return NodeShown(
        name=name,
        file=node.file,
        line=node.line,
        address=spec.address,
        ssh=replace(spec.ssh, user=control_login(spec, fleet.settings)),
        family=spec.family,
        isolation=spec.isolation,
        sharing=spec.sharing,
        admin=spec.admin,
        identity=spec.identity,
        fingerprints=tuple(_fingerprints(spec)),
        commit=origin.commit,
        author=origin.author,
        approvals=tuple(in_force(spec)),
        slots=tuple(_slots(offer, world)),
        readiness=tuple(readiness(offer, _family(desired, spec))),
        hardening=_hardening(offer, desired),
        source=offer.facts.source if offer.facts else "",
        age=_age(fleet, seen),
        failed=offer.failed,
        labels=node.labels,
    )


def node_names(fleet: Fleet) -> tuple[str, ...]:
    """The names of nodes, for completion."""
    return tuple(node.ref.name for node in read_desired(fleet).of("node"))


def _family(desired: Desired, spec: NodeSpec) -> NodeFamilySpec | None:
    family = NODE_FAMILIES.get(desired, spec.family)
    return family.spec if family else None


def _hardening(offer: Offer, desired: Desired) -> tuple[Check, ...]:
    """Only of hosts that are prepared for tenants."""
    facts = offer.facts if offer.spec.isolation is Isolation.ACCOUNT else None
    return hardening(facts, containers=allows_containers(desired)) if facts else ()


def _age(fleet: Fleet, seen: Observation | None) -> int | None:
    return age_of(seen.last_answer, fleet.now()) if seen else None


def _fingerprints(spec: NodeSpec) -> Iterator[str]:
    """As `ssh-keygen -l` spells them; a key that cannot be read is refused by validate already."""
    for text in spec.identity.host_keys if spec.identity else ():
        key = parse_public_key(text)
        if isinstance(key, SshKey):
            yield f"{key.fingerprint} ({key.type})"


def in_force(spec: NodeSpec) -> Iterator[InForce]:
    """Approvals by age, each with what it still covers; last, what none covers."""
    left = set(approved_names(spec))
    names = (HOST, *(slot.name for slot in spec.slots))
    found = []
    for approval in sorted(spec.approvals, key=lambda one: one.at, reverse=True):
        covers = tuple(name for name in names if name in left & set(approval.covers))
        left -= set(covers)
        if covers:
            found.append(InForce(covers=covers, by=approval.by, at=approval.at))
    yield from reversed(found)
    once = {name for approval in spec.approvals for name in approval.covers}
    for fallen in (True, False):
        none = [n for n in names if n not in approved_names(spec) and (n in once) is fallen]
        if none:
            yield InForce(covers=tuple(none), fallen=fallen)


def _slots(offer: Offer, world: World) -> Iterator[SlotShown]:
    claims = {claim.slot: claim for claim in world.claims_on(offer.name)}
    for slot in offer.slots:
        claim: Claim | None = claims.get(slot.name) or claims.get(None)
        if claim is not None:
            state, cause = str(CLAIMED_AS[claim.state]), claim.problem
        else:
            found, cause = hindrance(offer, slot)
            state = str(found)
        yield SlotShown(
            slot=slot.spec,
            approved=slot.approved,
            state=state,
            cause=cause,
            allocation=str(claim.ref) if claim else "",
            vouched=vouched_for(world.overrides, offer.name, (slot.name,)),
        )
