"""Trust: which of the signed files on hosts are taken as true, and why not the others (rules 3,
21).

A file that is not trusted may be adopted by somebody's decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from reconciler.model.host.signed_record import Sign, SignedRecord
from reconciler.model.records import dataclass
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World

STATE = "this state"
Key = tuple[str, ...]


class KeyHolder(NamedTuple):
    """Who has a unique key, and with which value."""

    value: str
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting(ABC):
    """One signed file as a host has shown it: `id` is its name.

    `why` is empty for one that is trusted; `adopted` says by whose decision. What is `beyond` even
    that is not taken in at all.
    """

    node: str
    id: str
    why: str = ""
    beyond: bool = False
    adopted: bool = False

    @property
    def place(self) -> str:
        return f"{self.node}/{self.id}"

    @property
    def taken(self) -> bool:
        return not self.why or self.adopted

    @property
    @abstractmethod
    def signed(self) -> SignedRecord | None:
        """The signed content; None if nobody could read it."""


S = TypeVar("S", bound=Sighting)
Keys = Callable[[S], Iterable[tuple[Key, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """What signed files are checked against. Without a key `sign` is None, and nothing is
    signed.
    """

    state_id: str
    sign: Sign | None
    desired: Desired
    world: World


def signed_states(found: Iterable[Sighting], sign: Sign | None) -> Mapping[str, tuple[str, ...]]:
    """State id → where it stands in a file that this control machine has signed."""
    places: dict[str, list[str]] = defaultdict(list)
    for one in found:
        if one.signed and sign and one.signed.is_signed_by(sign):
            places[one.signed.state_id].append(one.place)
    return {state: tuple(where) for state, where in sorted(places.items())}


def adopted(found: Iterable[S], adopt: Collection[str]) -> list[S]:
    """Each with whether somebody takes it for true by their word."""
    return [replace(one, adopted=not one.beyond and one.place in adopt) for one in found]


def doubtful(told: SignedRecord, authority: Authority) -> str:
    """Why it is not ours; '' if it is."""
    if authority.sign is None:
        return "there is no key to check it with"
    if not told.is_signed_by(authority.sign):
        return "its signature is not ours"
    same = told.state_id == authority.state_id
    return "" if same else f"it is of state {told.state_id}"


def distrusted(one: S) -> S:
    """After somebody had root there the host proves nothing, neighbours included (rule 3)."""
    return one if one.why else replace(one, why="a tenant had root on its host")


def without_conflicts(
    found: Iterable[S], keys: Keys[S], held: Iterable[tuple[Key, KeyHolder]]
) -> Iterator[S]:
    """Of two that claim the same, neither is believed; one that is adopted is, and the others not.

    What is `held` already is never given up for what a host says. `keys` are what only one may
    have, each with a value: two of one key conflict where their values differ.
    """
    found = list(found)
    holders: dict[Key, list[KeyHolder]] = defaultdict(list)
    for key, holder in held:
        holders[key].append(holder)
    for one in found:
        for key, value in keys(one) if one.taken else ():
            holders[key].append(KeyHolder(value, one.place))
    weak = {one.place for one in found if one.taken and not one.adopted}
    for one in found:
        rivals = {
            (f"{key[0]} {key[-1]}", rival.who)
            for key, value in (keys(one) if one.taken else ())
            for rival in holders[key]
            if rival.value != value and not (one.adopted and rival.who in weak)
        }
        if not rivals:
            yield one
            continue
        what, who = min(rivals)
        why = f"{who} has the same {what}"
        yield replace(one, why=why, adopted=False, beyond=who == STATE)


def numbers_held(world: World) -> Iterator[tuple[Key, KeyHolder]]:
    """One number of a group for each project, and one project for each number."""
    for project, gid in world.counters.gids.items():
        yield from ((key, KeyHolder(value, STATE)) for key, value in numbers(project, gid))


def numbers(project: str, gid: int) -> Iterator[tuple[Key, str]]:
    yield ("gid", str(gid)), project
    yield ("project", project), str(gid)
