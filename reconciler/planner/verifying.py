"""Verifying: which descriptors that hosts show are believed, and why not the others (rules 3, 21).

Ordered rules, the first that holds says why. What is not believed may be adopted by somebody's
word, unless nobody could do anything with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from reconciler.model.capacity import Isolation, Shape
from reconciler.model.descriptor import Descriptor, DescriptorError, read_descriptor
from reconciler.model.desired import Desired
from reconciler.model.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One descriptor as a host has shown it: `id` is the name of its file.

    `why` is empty for one that is taken for true; `adopted` says by whose word. What is `beyond`
    even that is not taken in at all.
    """

    node: str
    id: str
    descriptor: Descriptor | None = None
    why: str = ""
    beyond: bool = False
    adopted: bool = False

    @property
    def place(self) -> str:
        return f"{self.node}/{self.id}"

    @property
    def taken(self) -> bool:
        return not self.why or self.adopted


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """What descriptors are held against. Without a key `sign` is None, and nothing is signed."""

    state_id: str
    sign: Callable[[str], str] | None
    desired: Desired
    world: World


def read_found(told: Mapping[str, Mapping[str, str]]) -> tuple[Found, ...]:
    """Every descriptor of every node, `node` → `id` → text."""
    return tuple(
        _read(node, id, text) for node in sorted(told) for id, text in sorted(told[node].items())
    )


def signed_states(
    found: Iterable[Found], sign: Callable[[str], str] | None
) -> Mapping[str, tuple[str, ...]]:
    """State id → where it stands in a descriptor that this control machine has signed."""
    places: dict[str, list[str]] = defaultdict(list)
    for one in found:
        if one.descriptor and sign and one.descriptor.is_signed_by(sign):
            places[one.descriptor.state_id].append(one.place)
    return {state: tuple(where) for state, where in sorted(places.items())}


def verify(
    found: Iterable[Found], authority: Authority, adopt: Collection[str]
) -> tuple[Found, ...]:
    """Each of them judged; what is in `adopt` (`node/id`) is taken where that can be."""
    known = {(claim.node, claim.allocation_id) for claim in authority.world.claims}
    judged = [_judged(one, authority) for one in found if (one.node, one.id) not in known]
    # What is said on a host whose tenants are root is theirs to say.
    skus = {sku.ref.name for sku in authority.desired.of("sku") if sku.spec.root_access}
    rooted = {one.node for one in judged if one.descriptor and one.descriptor.sku in skus}
    judged = [_distrusted(one) if one.node in rooted else one for one in judged]
    told = [replace(one, adopted=not one.beyond and one.place in adopt) for one in judged]
    return tuple(_without_conflicts(told, authority.world))


def _read(node: str, id: str, text: str) -> Found:
    try:
        return Found(node=node, id=id, descriptor=read_descriptor(text))
    except DescriptorError as error:
        return Found(node=node, id=id, why=str(error), beyond=True)


def _judged(one: Found, authority: Authority) -> Found:
    descriptor = one.descriptor
    if descriptor is None:
        return one
    for beyond, rules in ((True, IMPOSSIBLE), (False, DOUBTFUL)):
        for rule in rules:
            if why := rule(one, descriptor, authority):
                return replace(one, why=why, beyond=beyond)
    return one


def _misplaced(one: Found, descriptor: Descriptor, authority: Authority) -> str:
    if descriptor.id != one.id:
        return f"its file is that of {one.id}, and it says {descriptor.id}"
    return "" if descriptor.node == one.node else f"it was made for node {descriptor.node}"


def _without_place(one: Found, descriptor: Descriptor, authority: Authority) -> str:
    node = authority.desired.get("node", one.node)
    if node is None:
        return f"node {one.node} is in no spec"
    lacking = set(descriptor.slots) - {slot.name for slot in node.spec.slots}
    if lacking:
        return f"slot {', '.join(sorted(lacking))} is not in the spec of {one.node}"
    accounts = (bool(descriptor.uid), bool(descriptor.gid))
    if accounts != (node.spec.isolation is Isolation.ACCOUNT,) * 2:
        return f"it was not made for isolation {node.spec.isolation}"
    return ""


def _unsigned(one: Found, descriptor: Descriptor, authority: Authority) -> str:
    if authority.sign is None:
        return "there is no key to check it with"
    return "" if descriptor.is_signed_by(authority.sign) else "its signature is not ours"


def _foreign(one: Found, descriptor: Descriptor, authority: Authority) -> str:
    same = descriptor.state_id == authority.state_id
    return "" if same else f"it is of state {descriptor.state_id}"


Rule = Callable[[Found, Descriptor, Authority], str]

IMPOSSIBLE: tuple[Rule, ...] = (_misplaced, _without_place)
"""Nothing can be taken in from these, whoever says so."""

DOUBTFUL: tuple[Rule, ...] = (_unsigned, _foreign)


def _distrusted(one: Found) -> Found:
    """After somebody had root there the host proves nothing, neighbours included (rule 3)."""
    return one if one.why else replace(one, why="a tenant had root on its host")


def _without_conflicts(found: Iterable[Found], world: World) -> Iterator[Found]:
    """Of two that claim the same, neither is believed; one that is adopted is, and the others not.

    What this state knows already is never given up for what a host says.
    """
    found = list(found)
    taken = [one for one in found if one.taken]
    whole = {c.node for c in world.claims if c.slot is None}
    whole |= {o.node for o in taken if o.descriptor and o.descriptor.shape is Shape.BAREMETAL}
    holders: dict[Key, list[Holder]] = defaultdict(list)
    for key, value in _held(world, whole):
        holders[key].append(Holder(value, STATE))
    for one in taken:
        for key, value in _keys(one, whole):
            holders[key].append(Holder(value, one.place))
    weak = {one.place for one in taken if not one.adopted}
    for one in found:
        rivals = {
            (f"{key[0]} {key[-1]}", rival.who)
            for key, value in (_keys(one, whole) if one.taken else ())
            for rival in holders[key]
            if rival.value != value and not (one.adopted and rival.who in weak)
        }
        if not rivals:
            yield one
            continue
        what, who = min(rivals)
        why = f"{who} has the same {what}"
        yield replace(one, why=why, adopted=False, beyond=who == STATE)


STATE = "this state"
Key = tuple[str, ...]


class Holder(NamedTuple):
    """Of a key: two of them conflict where their values differ."""

    value: str
    who: str


def _keys(one: Found, whole: Collection[str]) -> Iterator[tuple[Key, str]]:
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
    if descriptor.uid:
        project, gid = descriptor.ref.project, str(descriptor.gid)
        yield ("uid", str(descriptor.uid)), one.place
        yield ("gid", gid), project
        yield ("project", project), gid


def _held(world: World, whole: Collection[str]) -> Iterator[tuple[Key, str]]:
    counters = world.counters
    for claim in world.claims:
        yield ("ref", str(claim.ref)), STATE
        yield ("slot", claim.node, claim.slot or ""), STATE
        if claim.node in whole:
            yield ("node", claim.node), STATE
    yield from ((("id", id), STATE) for id in counters.login_of)
    yield from ((("login", login), STATE) for login in counters.logins)
    yield from ((("uid", str(uid)), STATE) for uid in counters.uids.values())
    for project, gid in counters.gids.items():
        yield ("gid", str(gid)), project
        yield ("project", project), str(gid)
