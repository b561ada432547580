"""Descriptors: which of those on hosts are trusted, and why not the others (rules 3, 21).

Ordered rules, the first that holds says why. What is not believed may be adopted by somebody's
word, unless nobody could do anything with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.kinds.node.spec import NODES
from reconciler.kinds.sku import SKUS
from reconciler.model.host.capacity import Isolation, Shape
from reconciler.model.host.descriptor import Descriptor, read_descriptor
from reconciler.model.host.signed_record import RecordError, SignedRecord
from reconciler.model.records import dataclass
from reconciler.model.rules import first_refusal
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.planner.rebuild.trust import (
    STATE,
    Authority,
    Key,
    KeyHolder,
    Sighting,
    adopted,
    distrusted,
    doubtful,
    numbers,
    numbers_held,
    without_conflicts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDescriptor(Sighting):
    """The descriptor of an allocation."""

    descriptor: Descriptor | None = None

    @property
    def signed(self) -> SignedRecord | None:
        return self.descriptor


def read_found(told: Mapping[str, Mapping[str, str]]) -> tuple[FoundDescriptor, ...]:
    """Every descriptor of every node, `node` → `id` → text."""
    return tuple(
        _read(node, id, text) for node in sorted(told) for id, text in sorted(told[node].items())
    )


def verify(
    found: Iterable[FoundDescriptor], authority: Authority, adopt: Collection[str]
) -> tuple[FoundDescriptor, ...]:
    """Each of them judged; what is in `adopt` (`node/id`) is taken where that can be."""
    known = {(claim.node, claim.allocation_id) for claim in authority.world.claims}
    judged = [_judged(one, authority) for one in found if (one.node, one.id) not in known]
    rooted = rooted_nodes(judged, authority.desired)
    judged = [distrusted(one) if one.node in rooted else one for one in judged]
    told = adopted(judged, adopt)
    whole = {c.node for c in authority.world.claims if c.slot is None}
    whole |= {
        one.node
        for one in told
        if one.taken and one.descriptor and one.descriptor.shape is Shape.BAREMETAL
    }
    held = _held(authority.world, whole)
    return tuple(without_conflicts(told, lambda one: _keys(one, whole), held))


def rooted_nodes(found: Iterable[FoundDescriptor], desired: Desired) -> frozenset[str]:
    """What is said on a host whose tenants are root is theirs to say."""
    skus = {sku.ref.name for sku in SKUS.of(desired) if sku.spec.root_access}
    return frozenset(one.node for one in found if one.descriptor and one.descriptor.sku in skus)


def _read(node: str, id: str, text: str) -> FoundDescriptor:
    try:
        return FoundDescriptor(node=node, id=id, descriptor=read_descriptor(text))
    except RecordError as error:
        return FoundDescriptor(node=node, id=id, why=str(error), beyond=True)


def _judged(one: FoundDescriptor, authority: Authority) -> FoundDescriptor:
    descriptor = one.descriptor
    if descriptor is None:
        return one
    if why := first_refusal(IMPOSSIBLE, one, descriptor, authority):
        return replace(one, why=why, beyond=True)
    return replace(one, why=doubtful(descriptor, authority))


def _misplaced(one: FoundDescriptor, descriptor: Descriptor, authority: Authority) -> str:
    if descriptor.id != one.id:
        return f"its file is that of {one.id}, and it says {descriptor.id}"
    return "" if descriptor.node == one.node else f"it was made for node {descriptor.node}"


def _without_place(one: FoundDescriptor, descriptor: Descriptor, authority: Authority) -> str:
    node = NODES.get(authority.desired, one.node)
    if node is None:
        return f"node {one.node} is in no spec"
    lacking = set(descriptor.slots) - {slot.name for slot in node.spec.slots}
    if lacking:
        return f"slot {', '.join(sorted(lacking))} is not in the spec of {one.node}"
    accounts = (descriptor.uid is not None, descriptor.gid is not None)
    if accounts != (node.spec.isolation is Isolation.ACCOUNT,) * 2:
        return f"it was not made for isolation {node.spec.isolation}"
    return ""


Rule = Callable[[FoundDescriptor, Descriptor, Authority], str]

IMPOSSIBLE: tuple[Rule, ...] = (_misplaced, _without_place)
"""Nothing can be taken in from these, whoever says so."""


def _keys(one: FoundDescriptor, whole: Collection[str]) -> Iterator[tuple[Key, str]]:
    """What only one allocation may have, and what only one project may, each with its value."""
    descriptor = one.descriptor
    if descriptor is None:
        return
    yield ("ref", str(descriptor.ref)), one.place
    yield ("id", descriptor.id), one.place
    yield ("login", descriptor.login), one.place
    for slot in descriptor.slots:
        yield ("slot", one.node, slot), one.place
    if one.node in whole:
        yield ("node", one.node), one.place
    if descriptor.uid is not None:
        yield ("uid", str(descriptor.uid)), one.place
    if descriptor.gid is not None:
        yield from numbers(descriptor.ref.project, descriptor.gid)


def _held(world: World, whole: Collection[str]) -> Iterator[tuple[Key, KeyHolder]]:
    counters = world.counters
    for claim in world.claims:
        yield ("ref", str(claim.ref)), KeyHolder(STATE, STATE)
        yield ("slot", claim.node, claim.slot or ""), KeyHolder(STATE, STATE)
        if claim.node in whole:
            yield ("node", claim.node), KeyHolder(STATE, STATE)
    yield from ((("id", id), KeyHolder(STATE, STATE)) for id in counters.login_of)
    yield from ((("login", login), KeyHolder(STATE, STATE)) for login in counters.logins)
    yield from ((("uid", str(uid)), KeyHolder(STATE, STATE)) for uid in counters.uids.values())
    yield from numbers_held(world)
