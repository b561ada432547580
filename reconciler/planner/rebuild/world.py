"""The rebuilt world: what must be recorded for hosts to show what they show. Pure.

What is believed gets its claims and is recorded as its host shows it; then the planner itself says
what of all that git wants is in force already. So nothing counts as applied that a plan would not
have applied, and what differs is left for the next plan to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.contract import Binding, Context
from reconciler.kinds.node.spec import NODES
from reconciler.kinds.project import PROJECTS
from reconciler.kinds.registry import KINDS
from reconciler.kinds.sku import SKUS
from reconciler.model.canonical import digest
from reconciler.model.codec import encode
from reconciler.model.host.capacity import Isolation, Placement, Shape
from reconciler.model.host.descriptor import Descriptor
from reconciler.model.host.evidence import NodeFacts
from reconciler.model.host.facts.named_fact import is_unknown
from reconciler.model.host.posix import LAST_UID
from reconciler.model.moment import format_moment
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.plan import Action, Change, Plan
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.rebuilt import MARGIN
from reconciler.model.state.world import Counters, Recorded, World
from reconciler.planner.changes import text
from reconciler.planner.changes.outcome import context_of
from reconciler.planner.changes.stale import binding_of
from reconciler.planner.core.effective_spec import as_recorded
from reconciler.planner.core.facts import differing, shown
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.core.seat import Seat, claims_of
from reconciler.planner.identity.render_hash import basis_of
from reconciler.planner.rebuild.descriptors import FoundDescriptor
from reconciler.planner.rebuild.volume_records import FoundVolume
from reconciler.planner.rebuild.volumes import Ground, Regained, regain

Shown = Mapping[str, NodeFacts]
"""What each node says of itself."""


class FoundVerdict(StrEnum):
    """What an allocation comes to that was found on a host."""

    AS_APPLIED = "as_applied"
    DIFFERS = "differs"
    UNWANTED = "unwanted"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """`world` is what follows from descriptors alone, `refs` what they are called in it now."""

    world: World
    claims: tuple[ClaimIntent, ...]
    refs: Mapping[str, Ref]
    regained: Regained = field(default_factory=Regained)


def seed(
    request: PlanRequest,
    taken: Iterable[FoundDescriptor],
    facts: Shown,
    records: Iterable[FoundVolume] = (),
) -> Seeded:
    """The request's world with everything that is taken in, and the data that `records` tell of.

    Recorded as its host shows it, and in doubt: the planner says what is as git wants it.
    """
    found = [(one, one.descriptor) for one in taken if one.descriptor is not None]
    refs = _called_now([descriptor for _, descriptor in found], request.desired)
    world, at = request.world, format_moment(request.now)
    intents = tuple(i for _, d in found for i in _claims(d, refs[d.id], request.desired))
    recorded = {refs[d.id]: _recorded(d, refs[d.id], request.desired, at) for _, d in found}
    places = {claim.allocation_id: (claim.ref, claim.node) for claim in world.claims}
    places |= {d.id: (refs[d.id], d.node) for _, d in found}
    ground = Ground(desired=request.desired, world=world, places=places, facts=facts, at=at)
    regained = regain(records, ground)
    world = replace(
        world,
        recorded={**world.recorded, **recorded, **regained.recorded},
        claims=(*world.claims, *(intent.held(at) for intent in intents)),
        counters=_counters(world.counters, [d for _, d in found], regained.gids),
        volumes={**world.volumes, **{one.ref: one for one in regained.volumes}},
        attachments=(*world.attachments, *regained.attachments),
    )
    context = context_of(replace(request, world=world))
    as_shown = {
        ref: replace(one, facts=_as_shown(one, context, facts.get(one.node)))
        for ref, one in recorded.items()
    }
    world = replace(world, recorded={**world.recorded, **as_shown})
    return Seeded(world=world, claims=intents, refs=refs, regained=regained)


def prepared(request: PlanRequest, facts: Shown) -> Mapping[Ref, Recorded]:
    """Nodes that show every wall: those were prepared, and need it no second time."""
    context, at = context_of(request), format_moment(request.now)
    found = {}
    for node in NODES.of(request.desired):
        seen = facts.get(node.ref.name)
        if seen is None or node.spec.isolation is not Isolation.ACCOUNT:
            continue
        binding = Binding(
            ref=node.ref,
            id="",
            login="",
            placement=Placement(node=node.ref.name, slots=(), shape=Shape.BAREMETAL),
            resource=node,
            recorded=None,
        )
        expected = KINDS["node"].expected(binding, context)
        if not list(differing(seen, expected)):
            found[node.ref] = Recorded(
                ref=node.ref,
                normal=node.normal,
                digest=node.digest,
                file=node.file,
                applied_at=at,
                basis=basis_of(KINDS["node"].basis(binding, context)),
                facts=expected,
            )
    return found


def settled(made: Plan) -> tuple[Change, ...]:
    """Changes that need no host: with the world as it is shown, these are in force already."""
    begun = (Action.CREATE, Action.CHANGE)
    needless = tuple(c for c in made.active if c.action in begun and not c.steps)
    return (*needless, *made.confirmed)


def verdicts(seeded: Seeded, made: Plan) -> Mapping[str, tuple[FoundVerdict, str]]:
    """By allocation id, and what the next plan will do about it; a refusal is told first."""
    lines = {c.ref: c for c in sorted(made.changes, key=lambda c: c.problem is not None)}
    return {id: _verdict(lines.get(ref)) for id, ref in seeded.refs.items()}


def usage(seeded: Seeded, request: PlanRequest) -> tuple[Change, ...]:
    """What each allocation costs from now on: what it has cost until now is lost with the state."""
    changes = []
    for ref in sorted(seeded.refs.values()):
        one = seeded.world.recorded[ref]
        sku = SKUS.get(request.desired, ALLOCATIONS.applied(one).sku)
        rate = text.price_delta(text.price(sku, len(one.slots), request.now), {})
        gpus = len(one.slots)
        changes.append(Change(ref=ref, action=Action.CREATE, gpus=gpus, rate_per_hour=rate))
    return tuple(changes)


def floors(request: PlanRequest, seeded: Seeded) -> Mapping[str, int]:
    """Above all that may have been given, as far as hosts still know of it.

    How often a ref was created nobody knows any more. It was less often than once a second, so
    the second of now is above any count there was.
    """
    posix, counters = request.desired.settings.posix, seeded.world.counters
    uid = max(posix.first_uid - 1, counters.last_uid)
    gid = max(posix.first_gid - 1, counters.last_gid)
    return {
        "incarnation": max(counters.least_incarnation, int(request.now.timestamp())),
        "uid": min(uid + MARGIN, LAST_UID),
        "gid": min(gid + MARGIN, LAST_UID),
    }


def _called_now(descriptors: Iterable[Descriptor], desired: Desired) -> Mapping[str, Ref]:
    """By id. After a rename the files of an allocation say its former name (`allocation_host`)."""
    descriptors = list(descriptors)
    own = {descriptor.ref for descriptor in descriptors}
    renamed = {
        Ref(one.ref.kind, one.ref.project, one.former_name): one.ref
        for one in ALLOCATIONS.of(desired)
        if one.former_name and one.ref not in own
    }
    return {
        d.id: d.ref if d.ref in desired.resources else renamed.get(d.ref, d.ref)
        for d in descriptors
    }


def _claims(descriptor: Descriptor, ref: Ref, desired: Desired) -> tuple[ClaimIntent, ...]:
    project = PROJECTS.get(desired, ref.project)
    place = Placement(node=descriptor.node, slots=descriptor.slots, shape=descriptor.shape)
    seat = Seat(
        placement=place,
        id=descriptor.id,
        login=descriptor.login,
        uid=descriptor.uid,
        gid=descriptor.gid,
    )
    # Without its project nobody can say who its neighbours may be: so nobody may.
    return claims_of(seat, ref, project.spec.tenant if project else "")


def _counters(
    before: Counters, descriptors: Iterable[Descriptor], of_files: Mapping[str, int]
) -> Counters:
    logins = {d.id: d.login for d in descriptors}
    uids = {d.id: d.uid for d in descriptors if d.uid is not None}
    gids = {**of_files, **{d.ref.project: d.gid for d in descriptors if d.gid is not None}}
    return replace(
        before,
        logins=before.logins | frozenset(logins.values()),
        login_of={**before.login_of, **logins},
        uids={**before.uids, **uids},
        gids={**before.gids, **gids},
        last_uid=max([before.last_uid, *uids.values()]),
        last_gid=max([before.last_gid, *gids.values()]),
    )


def _recorded(descriptor: Descriptor, ref: Ref, desired: Desired, at: str) -> Recorded:
    """As git wants it, but for what its descriptor says otherwise: that is what it was."""
    resource = ALLOCATIONS.at(desired, ref)
    normal = dict(resource.normal) if resource else {"labels": {}}
    if resource is None:
        spec = ALLOCATIONS.parse({"sku": descriptor.sku, "owner": descriptor.owner}, ref.name)
    else:
        spec = replace(resource.spec, sku=descriptor.sku, owner=descriptor.owner)
    if spec.node not in (None, descriptor.node):
        spec = replace(spec, node=descriptor.node)
    normal["spec"] = encode(spec)
    return Recorded(
        ref=ref,
        normal=normal,
        digest=digest(normal),
        file=resource.file if resource else "",
        commit=descriptor.commit,
        applied_at=at,
        protect=bool(resource and resource.spec.protect),
        id=descriptor.id,
        login=descriptor.login,
        node=descriptor.node,
        slots=descriptor.slots,
        shape=descriptor.shape,
        expires_at=descriptor.expires_at,
    )


def _as_shown(
    recorded: Recorded, context: Context, facts: NodeFacts | None
) -> Mapping[str, str | None]:
    """What its host shows of all that is expected of it there; what must not be there, too."""
    resource = context.desired.resources.get(recorded.ref) or as_recorded(recorded)
    expected = KINDS["allocation"].expected(binding_of(recorded, resource, context.world), context)
    seen = {key: shown(facts, key) for key in expected}
    return {key: fact for key, fact in seen.items() if not is_unknown(fact)}


def _verdict(change: Change | None) -> tuple[FoundVerdict, str]:
    if change is None:
        return FoundVerdict.AS_APPLIED, ""
    if change.action is Action.RELEASE:
        return FoundVerdict.UNWANTED, "no spec wants it: the next plan releases it, once you agree"
    if change.problem is not None:
        return FoundVerdict.DIFFERS, change.problem.message
    if change.action is Action.CHANGE and not change.steps:
        return FoundVerdict.AS_APPLIED, ""
    return FoundVerdict.DIFFERS, f"the next plan is to {change.action} it"
