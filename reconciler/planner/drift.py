"""Drift: what hosts show otherwise than it was made, and what they could not say.

A plan only tells of it. Not checked is not the same as in order, so it is told apart. Of silent
hosts nothing is told here: they are listed as such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from reconciler.model.evidence import NodeFacts
from reconciler.model.lifecycle import Phase
from reconciler.model.plan import Note
from reconciler.model.ref import Ref
from reconciler.model.world import World
from reconciler.planner.noting import ACCESS
from reconciler.planner.showing import differing, is_unknown

HOST, UNCHECKED = "host", "unchecked"
KEYS = "/etc/gpuaas/ssh/"


def drift_of(world: World, told: Collection[Ref]) -> Iterator[Note]:
    """Of all that is in force, but for what the plan has `told` otherwise. Hosts are put right by

    a line of their own, so of them only what could not be checked is told.
    """
    seen = {
        node: (one.facts, {**(one.facts.paths or {}), **(one.facts.platform or {})}.items())
        for node, one in world.observations.items()
        if one.facts is not None and not one.problem
    }
    for ref, recorded in world.recorded.items() if seen else ():
        node = recorded.node or (ref.name if ref.kind == "node" else "")
        if node not in seen or ref in told or recorded.phase is not Phase.ACTIVE:
            continue
        facts, shown = seen[node]
        # The whole at once, as nearly all are as they should be.
        if not recorded.facts.items() <= shown:
            yield from _differences(ref, node, facts, recorded.facts)


def _differences(
    ref: Ref, node: str, facts: NodeFacts, wanted: Mapping[str, str | None]
) -> Iterator[Note]:
    for key, fact, made in differing(facts, wanted):
        if is_unknown(fact):
            yield Note(ref=ref, topic=UNCHECKED, text=f"{key} on {node}: {fact}")
        elif ref.kind != "node":
            topic = ACCESS if key.startswith(KEYS) else HOST
            yield Note(ref=ref, topic=topic, text=f"{key} on {node} {_change(fact, made)}")


def _change(fact: str | None, made: str | None) -> str:
    if fact is None or made is None:
        return "is gone" if fact is None else "is there"
    if fact.startswith("file ") and fact.split(" ")[:2] == made.split(" ")[:2]:
        return "has other content"
    return f"is {fact}, not {made}"
