"""The free-mask index: which node fits a request best, without looking at every node.

Nodes whose free slots lie alike over their NUMA nodes are equal for a request, so they share a
bucket; per request size the buckets are ranked once, and the best one that is not empty answers.
The index knows masks and numbers only: which slots count is decided by the rules of feasibility.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import NamedTuple

WIDEST = 16
"""Most slots of one node; a mask is as wide as its node has slots."""

WHOLE = 0
"""The request size of baremetal: every slot of one node."""

Score = tuple[int, ...]


class Choice(NamedTuple):
    """The slots to take: as a mask, as positions in the spec, and the NUMA nodes they touch."""

    mask: int
    positions: tuple[int, ...]
    numas: tuple[int, ...]


class Profile:
    """How free slots lie: their number per NUMA node, largest first, and whether all are free.

    A score is (NUMA nodes touched, slots left on the node, whole node broken, slots left on the
    NUMA nodes touched, the numbers themselves); the lowest wins. To `spread`, the most slots left
    on the node come first. Equal scores mean equal profiles, so that only the node's name is left
    to decide between two nodes.
    """

    __slots__ = ("counts", "scores", "spread", "total", "whole")

    def __init__(self, counts: tuple[int, ...], whole: bool, spread: bool) -> None:
        self.counts = counts
        self.whole = whole
        self.spread = spread
        self.total = sum(counts)
        self.scores = [self._score(size) for size in range(WIDEST + 1)]

    def _score(self, size: int) -> Score | None:
        if size == WHOLE:
            return (self.total, *self.counts) if self.whole else None
        if size > self.total:
            return None
        chosen = _tightest(self.counts, size)
        left = sum(self.counts[i] for i in chosen) - size
        if self.spread:
            return (len(chosen), size - self.total, int(self.whole), left, *self.counts)
        return (len(chosen), self.total - size, int(self.whole), left, *self.counts)


class Layout:
    """The NUMA nodes of a node's slots, in the order of the spec; shared by all nodes alike."""

    __slots__ = ("_choices", "_profiles", "full", "numas", "sold_whole", "spread")

    def __init__(self, numas: tuple[int, ...], sold_whole: bool, spread: bool) -> None:
        self.numas = numas
        self.sold_whole = sold_whole
        self.spread = spread
        self.full = (1 << len(numas)) - 1
        self._profiles: dict[int, Profile] = {}
        self._choices: dict[tuple[int, int], Choice] = {}

    def profile(self, free: int) -> Profile:
        found = self._profiles.get(free)
        if found is None:
            counts = sorted((len(group) for group in self._groups(free).values()), reverse=True)
            whole = self.sold_whole and free == self.full
            found = profile(tuple(counts), whole, self.spread)
            self._profiles[free] = found
        return found

    def choose(self, free: int, size: int) -> Choice:
        """The slots that a request takes of `free`, which must fit: tight NUMA nodes first, then
        low numbers.
        """
        found = self._choices.get((free, size))
        if found is None:
            found = self._choices[free, size] = self._choose(free, size)
        return found

    def _choose(self, free: int, size: int) -> Choice:
        groups = sorted(self._groups(free).values(), key=lambda g: (-len(g), self.numas[g[0]]))
        wanted = size or len(self.numas)
        chosen = [groups[i] for i in _tightest(tuple(len(g) for g in groups), wanted)]
        chosen.sort(key=lambda g: (len(g), self.numas[g[0]]))
        positions = tuple(sorted([at for group in chosen for at in group][:wanted]))
        return Choice(
            mask=sum(1 << at for at in positions),
            positions=positions,
            numas=tuple(sorted({self.numas[at] for at in positions})),
        )

    def _groups(self, free: int) -> dict[int, list[int]]:
        groups: dict[int, list[int]] = {}
        for at, numa in enumerate(self.numas):
            if free >> at & 1:
                groups.setdefault(numa, []).append(at)
        return groups


@cache
def layout(numas: tuple[int, ...], sold_whole: bool, spread: bool = False) -> Layout:
    return Layout(numas, sold_whole, spread)


@cache
def profile(counts: tuple[int, ...], whole: bool, spread: bool = False) -> Profile:
    return Profile(counts, whole, spread)


@cache
def _tightest(counts: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Which of `counts`, largest first, to use: as few as can hold `size`, then the tightest."""
    few, held = 0, 0
    while held < size:
        held += counts[few]
        few += 1
    fitting = (
        (sum(counts[i] for i in chosen), chosen)
        for chosen in combinations(range(len(counts)), few)
        if sum(counts[i] for i in chosen) >= size
    )
    return min(fitting)[1]


class BestNode(NamedTuple):
    """The best node by its number, and how many nodes fitted."""

    node: int
    score: Score
    fitting: int


class _Bucket:
    """Nodes of one group and profile: a heap of numbers, with leftovers of nodes that moved on."""

    __slots__ = ("group", "nodes", "profile", "ranked_for")

    def __init__(self, group: _Group, profile: Profile) -> None:
        self.group = group
        self.profile = profile
        self.nodes: list[int] = []
        self.ranked_for: set[int] = set()


class _Group:
    """The buckets of one group, ranked per request size as sizes are first asked for."""

    __slots__ = ("buckets", "ranks", "totals", "whole")

    def __init__(self) -> None:
        self.buckets: dict[Profile, _Bucket] = {}
        self.ranks: dict[int, list[tuple[Score, _Bucket]]] = {}
        self.totals = [0] * (WIDEST + 1)
        self.whole = 0

    def rank(self, size: int) -> list[tuple[Score, _Bucket]]:
        found = self.ranks.get(size)
        if found is None:
            found = self.ranks[size] = []
            for bucket in self.buckets.values():
                self._enlist(bucket, size)
            heapify(found)
        return found

    def join(self, node: int, profile: Profile) -> _Bucket:
        bucket = self.buckets.get(profile)
        if bucket is None:
            bucket = self.buckets[profile] = _Bucket(self, profile)
        heappush(bucket.nodes, node)
        for size in self.ranks:
            if size not in bucket.ranked_for:
                self._enlist(bucket, size)
        self.totals[profile.total] += 1
        self.whole += profile.whole
        return bucket

    def leave(self, profile: Profile) -> None:
        self.totals[profile.total] -= 1
        self.whole -= profile.whole

    def fitting(self, size: int) -> int:
        return self.whole if size == WHOLE else sum(self.totals[size:])

    def _enlist(self, bucket: _Bucket, size: int) -> None:
        score = bucket.profile.scores[size]
        if score is not None:
            bucket.ranked_for.add(size)
            heappush(self.ranks[size], (score, bucket))


class Pool:
    """All nodes that serve one sort of request, by their number; numbers follow their names."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._at: dict[int, _Bucket] = {}

    def find(self, size: int, groups: Sequence[str]) -> BestNode | None:
        """The best node for `size` slots among those that one of `groups` may join."""
        best: tuple[Score, int] | None = None
        fitting = 0
        for name in groups:
            group = self._groups.get(name)
            if group is None or not (held := group.fitting(size)):
                continue
            fitting += held
            top = self._top(group, size)
            if top is not None and (best is None or top < best):
                best = top
        return BestNode(best[1], best[0], fitting) if best else None

    def put(self, node: int, profile: Profile, group: str) -> None:
        """Add a node as it is now; `group` says who may join it."""
        self.drop(node)
        of = self._groups.get(group)
        if of is None:
            of = self._groups[group] = _Group()
        self._at[node] = of.join(node, profile)

    def drop(self, node: int) -> None:
        """Remove a node that has nothing left to give."""
        at = self._at.pop(node, None)
        if at is not None:
            at.group.leave(at.profile)

    def _top(self, group: _Group, size: int) -> tuple[Score, int] | None:
        rank = group.rank(size)
        while rank:
            score, bucket = rank[0]
            nodes = bucket.nodes
            while nodes and self._at.get(nodes[0]) is not bucket:
                heappop(nodes)
            if nodes:
                return score, nodes[0]
            heappop(rank)
            bucket.ranked_for.discard(size)
        return None
