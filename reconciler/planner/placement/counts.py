"""Counts: nodes by the rule that refuses a request, shared by all equal requests.

Many may wait for the same, each in a project of their own. What refuses a node to all of them is
worked out once; whose neighbour one would be is then a matter of adding up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from reconciler.model.host.capacity import Need, Unavailable
from reconciler.planner.placement.filters import (
    TOO_FEW_FREE_SLOTS,
    judge,
    refused_elsewhere,
    refused_to_all,
)
from reconciler.planner.placement.inventory import (
    EVERYBODY,
    Occupancy,
    Offer,
    project_group,
    tenant_group,
)

SHARED_WITH_TENANT = "host_shared_with_other_tenant"
SHARED_WITH_PROJECT = "host_shared_with_other_project"


class Kinds:
    """Nodes by their kind: equal family, isolation and shapes."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self.offers = offers
        self.numbers = {offer.name: number for number, offer in enumerate(offers)}
        self.families: dict[str, dict[tuple[object, ...], dict[int, None]]] = {}
        for number, offer in enumerate(offers):
            kind = (offer.spec.isolation, offer.spec.shapes)
            family = self.families.setdefault(offer.spec.family, {})
            family.setdefault(kind, {})[number] = None

    def named(self, names: Iterable[str]) -> Sequence[int]:
        """The numbers of the nodes with these names, as far as there are any."""
        return sorted(self.numbers[name] for name in names if name in self.numbers)

    def of(self, families: Iterable[str]) -> Sequence[int]:
        """The numbers of all nodes of these families, in order."""
        kinds = (
            kind for family in set(families) for kind in self.families.get(family, {}).values()
        )
        return sorted(number for kind in kinds for number in kind)


class _Room:
    """Nodes that one group may join: by the rule that refuses them, and the nearest to a fit."""

    __slots__ = ("counts", "nearest")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.nearest: tuple[int, str, str] | None = None


class Tally:
    """The counts for requests that differ only in who asks."""

    def __init__(self) -> None:
        self._always: Counter[str] = Counter()
        self._rooms: dict[str, _Room] = {}
        self._groups: Counter[str] = Counter()

    def count_others(self, kinds: Kinds, near: Collection[int], need: Need) -> None:
        """Count all nodes but those `near`, which are judged one by one.

        Nodes that no storage names differ here only in their kind.
        """
        offers = kinds.offers
        if need.pin:
            self._always["other_node"] += len(offers) - len(near)
            return
        apart = set(kinds.named({name for one in need.storage for name in one.nodes}))
        apart.update(near)
        among = 0
        for family in set(need.families):
            for members in kinds.families.get(family, {}).values():
                among += len(members)
                plain = next((at for at in members if at not in apart), None)
                if plain is not None:
                    rest = len(members) - sum(at in members for at in apart)
                    self._always[refused_elsewhere(offers[plain], need)] += rest
                for at in apart.intersection(members).difference(near):
                    self._always[refused_elsewhere(offers[at], need)] += 1
        self._always["family_mismatch"] += len(offers) - among

    def count(self, offer: Offer, held: Occupancy, need: Need) -> None:
        """Count one node by all rules but those on who may share it."""
        if rule := refused_to_all(offer, need).rule:
            self._always[rule] += 1
            return
        group = held.group(str(offer.spec.sharing))
        room = self._rooms.setdefault(group, _Room())
        self._groups[_shared_with(group)] += 1
        verdict = judge(offer, held, need, sharing=False)
        room.counts[verdict.rule] += 1
        if verdict.rule == TOO_FEW_FREE_SLOTS and verdict.usable:
            found = (-verdict.usable.bit_count(), offer.name, verdict.detail)
            room.nearest = min(found, room.nearest or found)

    def told(self, need: Need) -> Unavailable:
        """The counts as they are for the project of `need`, the most frequent first."""
        mine = (EVERYBODY, tenant_group(need.tenant), project_group(need.project))
        counts, others = Counter(self._always), Counter(self._groups)
        nearest = []
        for group in mine:
            if room := self._rooms.get(group):
                counts.update(room.counts)
                others[_shared_with(group)] -= room.counts.total()
                nearest += [room.nearest] if room.nearest else []
        counts.update(others)
        refusals = [(rule, number) for rule, number in counts.items() if rule and number]
        best = min(nearest, default=None)
        return Unavailable(
            refusals=dict(sorted(refusals, key=lambda item: (-item[1], item[0]))),
            nearest=f"{best[1]} has {best[2]}" if best else "",
        )


def _shared_with(group: str) -> str:
    """The rule that refuses a node of this group to everybody else."""
    if group == EVERYBODY:
        return ""
    return SHARED_WITH_TENANT if group.startswith(tenant_group("")) else SHARED_WITH_PROJECT
