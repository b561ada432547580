"""Duplicate GPUs: two hosts show one GPU, or a host shows a GPU that specs give to another.

Only one of the two can be right, and nobody can say from here which: nothing new is placed on
either until somebody has looked. A node without approval, out of use, or without a recent answer
casts no doubt on others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from reconciler.model.records import dataclass

NOWHERE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sightings:
    """`twice` maps GPUs to the nodes that show them, `strange` nodes to what is another's.

    Each of these is told as `GPU-… of gpu01`.
    """

    twice: Mapping[str, frozenset[str]] = field(default_factory=dict)
    strange: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def others(self, uuid: str, node: str) -> frozenset[str]:
        """Who else shows a card."""
        return self.twice.get(uuid, NOWHERE) - {node}


def read_sightings(
    shown: Mapping[str, Collection[str]], owners: Iterable[tuple[str, str]]
) -> Sightings:
    """`shown` are the GPUs that each node counted shows; `owners` pair GPUs with their nodes."""
    nodes: dict[str, set[str]] = defaultdict(set)
    for node, uuids in shown.items():
        for uuid in uuids:
            nodes[uuid].add(node)
    strange: dict[str, list[str]] = defaultdict(list)
    for uuid, owner in owners:
        for node in nodes.get(uuid, NOWHERE):
            if node != owner:
                strange[node].append(f"{uuid} of {owner}")
    return Sightings(
        twice={uuid: frozenset(found) for uuid, found in nodes.items() if len(found) > 1},
        strange={node: tuple(sorted(told)) for node, told in strange.items()},
    )
