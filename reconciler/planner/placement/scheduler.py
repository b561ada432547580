"""WHERE: a node and slots for each request, by the feasibility rules and the free-mask index.

The winner is of those that least counts against, and has the lowest score; ties fall to the
node's name. Slots that this plan frees are
never counted: what is held when a plan begins stays held in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from reconciler.model.host.capacity import Candidate, Claim, Need, Placement, Shape, Unavailable
from reconciler.model.ref import Ref
from reconciler.model.rules import Objection
from reconciler.planner.bundles.compatibility import not_for_lack_of_room
from reconciler.planner.placement.counts import Kinds, Tally
from reconciler.planner.placement.filters import REQUEST_RULES, judge, refused_to_all, usable_slots
from reconciler.planner.placement.free_index import WHOLE, Layout, Pool, layout
from reconciler.planner.placement.inventory import (
    EVERYBODY,
    Offer,
    project_group,
    read_held,
    tenant_group,
)


class Placer:
    """Places one request after the other; each place taken is seen by the next request."""

    def __init__(self, offers: Iterable[Offer], claims: Iterable[Claim]) -> None:
        self.offers = tuple(sorted(offers, key=lambda offer: offer.name))
        held = read_held(self.offers, claims)
        self._held = [held[offer.name] for offer in self.offers]
        self._layouts = [_layout(offer) for offer in self.offers]
        self._names = [tuple(slot.name for slot in offer.slots) for offer in self.offers]
        self.spread = any(offer.spread for offer in self.offers)
        self._weights = [offer.weight for offer in self.offers]
        self._sharing = [str(offer.spec.sharing) for offer in self.offers]
        self._suspended = frozenset(p for offer in self.offers for p in offer.suspended_projects)
        self._kinds = Kinds(self.offers)
        self._sorts: dict[tuple[object, ...], _Sort] = {}
        self._asked: dict[tuple[object, ...], _Sort] = {}
        self._sorts_of: dict[int, list[_Sort]] = {}
        self._tallies: dict[tuple[object, ...], Tally] = {}
        self._misfits: dict[tuple[object, ...], Objection | None] = {}

    def place(self, need: Need) -> Placement | None:
        """The best place, taken at once; None if there is none (`refusals` says why)."""
        sort = self._sort(need)
        groups = (EVERYBODY, tenant_group(need.tenant), project_group(need.project))
        found = None
        for weight in sorted(sort.pools):
            found = found or sort.pools[weight].find(need.slots, groups)
        if found is None:
            return None
        node = found.node
        held = self._held[node]
        choice = self._layouts[node].choose(sort.usable[node] & ~held.mask, need.slots)
        whole_by = str(need.ref) if need.slots == WHOLE else ""
        held.add(choice.mask, need.tenant, need.project, whole_by=whole_by)
        self._tallies.clear()
        for other in self._sorts_of[node]:
            self._put(other, node)
        names = self._names[node]
        return Placement(
            node=self.offers[node].name,
            slots=tuple([names[at] for at in choice.positions]),
            shape=need.shape,
            numa=choice.numas,
            fitting=found.fitting,
        )

    def explain(self, need: Need) -> tuple[Candidate, ...]:
        """Every node as it stands now: those that fit, best first, then the others by name.

        One that has too few free slots shows those that it has.
        """
        fitting, refused = [], []
        for number, offer in enumerate(self.offers):
            verdict = judge(offer, self._held[number], need)
            names, kind = self._names[number], self._layouts[number]
            if verdict.rule:
                free = tuple(name for at, name in enumerate(names) if verdict.usable >> at & 1)
                why, detail = verdict.rule, verdict.detail
                refused.append(Candidate(node=offer.name, slots=free, rule=why, detail=detail))
                continue
            choice = kind.choose(verdict.usable, need.slots)
            score = kind.profile(verdict.usable).scores[need.slots]
            slots = tuple(names[at] for at in choice.positions)
            one = Candidate(node=offer.name, slots=slots, score=score or (), detail=offer.failed)
            fitting.append((offer.weight, one.score, offer.name, one))
        return (*(one for *_, one in sorted(fitting, key=lambda row: row[:3])), *refused)

    def misfit(self, need: Need) -> Objection | None:
        """The objection, where its runtimes fit no node, so that there is nothing to wait for."""
        if not need.runtimes:
            return None
        asked = (*_same(need), need.project in self._suspended)
        if asked not in self._misfits:
            near = (refused_to_all(self.offers[at], need) for at in self._candidates(need))
            self._misfits[asked] = not_for_lack_of_room(near, REQUEST_RULES)
        return self._misfits[asked]

    def refusals(self, need: Need) -> Unavailable:
        """Why nothing fits: nodes counted by the first rule that refused them, and the nearest."""
        asked = (*_same(need), need.slots)
        found = self._tallies.get(asked)
        if found is None:
            found = self._tallies[asked] = self._tally(need)
        return found.told(need)

    def _tally(self, need: Need) -> Tally:
        """The tally of everybody who asks the same; only who may share a node is still open."""
        near = self._candidates(need)
        tally = Tally()
        tally.count_others(self._kinds, near, need)
        for number in near:
            tally.count(self.offers[number], self._held[number], need)
        return tally

    def _candidates(self, need: Need) -> Sequence[int]:
        """The numbers of the nodes that its pin, its data and its families leave."""
        if need.pin:
            return self._kinds.named({need.pin})
        if data := {one.node for one in need.storage if one.node}:
            found = self._kinds.named(data) if len(data) == 1 else ()
            return [at for at in found if self.offers[at].spec.family in need.families]
        return self._kinds.of(need.families)

    def _sort(self, need: Need) -> _Sort:
        """By its SKU, as that is quick to look up, and SKUs that ask the same share one."""
        suspended = need.project in self._suspended
        asked = (need.sku, need.pin, suspended, need.storage, need.runtimes)
        found = self._asked.get(asked)
        if found is None:
            same = (*_same(need), suspended)
            found = self._sorts.get(same)
            if found is None:
                found = self._sorts[same] = self._build(need)
            self._asked[asked] = found
        return found

    def _build(self, need: Need) -> _Sort:
        # Of slices the size is left out: what one slot may serve, any number of them may.
        one = need if need.slots == WHOLE else replace(need, slots=1)
        masks = ((at, usable_slots(self.offers[at], one)) for at in self._candidates(need))
        usable = {number: mask for number, mask in masks if mask}
        sort = _Sort({}, usable, need.slots == WHOLE)
        for number in sort.usable:
            self._sorts_of.setdefault(number, []).append(sort)
            self._put(sort, number)
        return sort

    def _put(self, sort: _Sort, number: int) -> None:
        held = self._held[number]
        free = sort.usable[number] & ~held.mask
        pool = sort.pools.setdefault(self._weights[number], Pool())
        if free and not (sort.whole and held.mask):
            group = held.group(self._sharing[number])
            pool.put(number, self._layouts[number].profile(free), group)
        else:
            pool.drop(number)


class _Sort(NamedTuple):
    """Requests that ask the same of a node, whatever their number of slots.

    Nodes lie in pools by what counts against them.
    """

    pools: dict[int, Pool]
    usable: dict[int, int]
    whole: bool


def _same(need: Need) -> tuple[object, ...]:
    """Everything that decides which slots may serve a request, except its size and who asks.

    Its storage counts by where it can be reached, not by its name.
    """
    storage = tuple(
        (one.class_name, one.nodes, one.families, one.isolation, one.node) for one in need.storage
    )
    return (
        need.shape,
        need.families,
        need.isolation,
        need.min_cpus_per_slot,
        need.min_memory_gib_per_slot,
        need.rdma,
        need.pin,
        storage,
        need.runtimes,
    )


def in_order(needs: Iterable[Need], waiting: Mapping[Ref, str]) -> list[Need]:
    """Requests in order: those that wait already, then whole nodes, then the largest, then by
    ref.
    """
    return sorted(
        needs,
        key=lambda need: (
            need.ref not in waiting,
            waiting.get(need.ref, ""),
            need.slots != WHOLE,
            -need.slots,
            need.ref,
        ),
    )


def describe(placement: Placement, *, spread: bool = False) -> str:
    """Why this place, for people."""
    if placement.fitting <= 1:
        return "the only fit"
    of_slots = "emptiest node" if spread else "tightest fit"
    best = "smallest whole node" if placement.shape is Shape.BAREMETAL else of_slots
    return f"{best} of {placement.fitting}"


def _layout(offer: Offer) -> Layout:
    numas = tuple(slot.spec.numa for slot in offer.slots)
    return layout(numas, Shape.BAREMETAL in offer.spec.shapes, offer.spread)
