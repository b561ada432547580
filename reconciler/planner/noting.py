"""Notes: drift that was seen on hosts and that nobody acts on; a plan only tells of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.model.evidence import Observation
from reconciler.model.plan import Note
from reconciler.model.ref import Ref
from reconciler.model.world import World

ACCESS = "access"
MOST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayKey:
    """A line that somebody wrote for sshd into a home, and that opens nothing there.

    `ref` is the allocation of that home, or the node where the login is nobody's of ours; `key`
    says what and where it is.
    """

    ref: Ref
    node: str
    login: str
    key: str
    at: str


def notes_of(world: World) -> tuple[Note, ...]:
    """Keys of people's own that lie where they open nothing (rule 2), by what they lie in.

    Of very many in one place the first are told, and how many more there are.
    """
    found: dict[Ref, list[str]] = defaultdict(list)
    for one in stray_keys(world):
        found[one.ref].append(f"key {one.key} opens nothing")
    return tuple(
        Note(ref=ref, topic=ACCESS, text=text)
        for ref, texts in sorted(found.items())
        for text in _first(sorted(texts))
    )


def _first(texts: Sequence[str]) -> Iterator[str]:
    yield from texts[:MOST]
    if len(texts) > MOST:
        yield f"{len(texts) - MOST} more keys that open nothing"


def stray_keys(world: World) -> tuple[StrayKey, ...]:
    """All that hosts told of, by node and login. What no host could tell is not in it."""
    found = [
        (node, seen)
        for node, seen in sorted(world.observations.items())
        if seen.facts and seen.facts.stray_keys
    ]
    homes = {
        (one.node, one.login): ref for ref, one in world.recorded.items() if one.login and found
    }
    return tuple(
        StrayKey(
            ref=homes.get((node, login), Ref("node", "", node)),
            node=node,
            login=login,
            key=key,
            at=seen.at,
        )
        for node, seen in found
        for login, keys in sorted(_told(seen).items())
        for key in keys
    )


def _told(seen: Observation) -> Mapping[str, tuple[str, ...]]:
    return (seen.facts.stray_keys if seen.facts else None) or {}
