"""One fact of a host: its text, its absence, or that it is unknown.

Only what was listed in full can be seen to be absent; all else that is not there is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from reconciler.model.host.evidence import NodeFacts
from reconciler.model.host.facts.named_fact import (
    GPU,
    PRESENT,
    RUNS,
    UNKNOWN,
    is_told_in_full,
    name_of,
    word_of,
)
from reconciler.model.host.facts.path_fact import is_folder
from reconciler.model.host.facts.restart_fact import RESTART

ABSENT = "absent"

LISTED: Mapping[str, Callable[[NodeFacts], Mapping[str, str] | None]] = MappingProxyType(
    {
        GPU: lambda facts: None if facts.gpus is None else {g.uuid: PRESENT for g in facts.gpus},
        RESTART: lambda facts: facts.restarts,
        RUNS: lambda facts: (
            None
            if facts.running is None
            else {login: listed(what) for login, what in facts.running.items() if what}
        ),
    }
)
"""Words of named facts that a host tells in lists of their own, each whole or not at all."""

MOST, WIDEST = 12, 300


def shown(facts: NodeFacts | None, key: str) -> str | None:
    """The fact of a path, or a named one; None = observed to be absent."""
    if facts is None:
        return f"{UNKNOWN}: the host was not seen"
    if key.startswith("/"):
        if facts.paths is None:
            return f"{UNKNOWN}: not listed"
        found = facts.paths.get(key)
        why = barred(facts, key) if found is None else ""
        return f"{UNKNOWN}: {why}" if why else found
    word = word_of(key)
    if word in LISTED:
        listing = LISTED[word](facts)
        return f"{UNKNOWN}: not told" if listing is None else listing.get(name_of(key))
    named = facts.platform or {}
    if key in named or is_told_in_full(named, word):
        return named.get(key)
    return f"{UNKNOWN}: not told"


def barred(facts: NodeFacts, key: str) -> str:
    """What stands in the way to a path and is no folder, which nobody looks behind; or nothing."""
    way, paths = key, facts.paths or {}
    while way := way.rpartition("/")[0]:
        fact = paths.get(way)
        if fact is not None and not is_folder(fact):
            return f"{way} is {fact}"
    return ""


def listed(texts: Iterable[object], between: str = ", ") -> str:
    """A host's words in one line of ours: the first few, each cut to a bearable length."""
    told = [str(text) for text in texts]
    some = [text if len(text) <= WIDEST else f"{text[:WIDEST]}…" for text in told[:MOST]]
    return between.join((*some, f"{len(told) - MOST} more") if len(told) > MOST else some)


def told(seen: str | None, wanted: str | None) -> tuple[str, str]:
    """Both facts in words; of two lists of settings only what differs."""
    before, after = _settings(seen), _settings(wanted)
    if not before or not after:
        return seen or ABSENT, wanted or ABSENT
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    one, other = (
        " ".join(side.get(name) or f"without {name}" for name in names) for side in (before, after)
    )
    return one, other


def _settings(fact: str | None) -> Mapping[str, str]:
    """Name → `name=value`, of a fact that is made of these alone; values may have spaces."""
    words = (fact or "").split(" ")
    found: dict[str, str] = {}
    name = ""
    for word in words:
        start, is_one, _ = word.partition("=")
        if is_one and start.isidentifier():
            name = start
        elif not name:
            return {}
        found[name] = f"{found[name]} {word}" if name in found else word
    return found


def differing(
    facts: NodeFacts | None, wanted: Mapping[str, str | None]
) -> Iterator[tuple[str, str | None, str | None]]:
    """(key, shown, wanted) of everything that is not seen to be as wanted, sorted by key."""
    for key, fact in sorted(wanted.items()):
        seen = shown(facts, key)
        if seen != fact:
            yield key, seen, fact
