"""Assignment: the place, id and login of every new allocation, one request after the other.

Claims made earlier are taken up again, never made a second time. What finds no place gets no
claim at all, not even a part of one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from reconciler.kinds.node.spec import NODES, NodeSpec
from reconciler.kinds.registry import KINDS
from reconciler.model.host.capacity import Need, Placement, Shape, Unavailable
from reconciler.model.plan.plan import Action
from reconciler.model.problem import Problem, ProblemError
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.planner.bundles.compatibility import worded
from reconciler.planner.core.difference import Difference, of_kind
from reconciler.planner.core.refusal import Refusal, absence, problem_of
from reconciler.planner.core.seat import WITH_CAPACITY, Seat, Unseated, claims_of, placement_of
from reconciler.planner.identity.accounts import Accounts, Taken
from reconciler.planner.identity.claims import can_resume, groups_of
from reconciler.planner.identity.identity import allocation_id, login_for
from reconciler.planner.placement.forecast import ends_in, outlooks
from reconciler.planner.placement.inventory import Offer, read_offers
from reconciler.planner.placement.quota import Limits, Request
from reconciler.planner.placement.reasons import counted, remedy
from reconciler.planner.placement.recorded_slots import as_named
from reconciler.planner.placement.reservation import Reservation
from reconciler.planner.placement.scheduler import Placer, describe, in_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """What assignment works on.

    `desired` is what will be in force, `specs` what git says. `refused` are differences that stay
    undone. `reservations` are limits beside the slots of a place, `preparing` nodes that this plan
    prepares first.
    """

    desired: Desired
    specs: Desired
    world: World
    now: datetime
    refused: Mapping[Ref, Problem]
    origins: Mapping[Ref, Origin]
    differences: Sequence[Difference]
    reservations: Sequence[Reservation] = ()
    preparing: Collection[Ref] = ()


def seat_all(seating: Seating) -> Mapping[Ref, Seat | Unseated]:
    """A seat, or the reason why there is none, for every allocation to create or to replace."""
    coming = {
        difference.ref: difference
        for difference in seating.differences
        if difference.ref not in seating.refused
        and difference.action in (Action.CREATE, Action.REPLACE)
        and difference.ref.kind in WITH_CAPACITY
        and not difference.finishing
    }
    return _Usher(seating).seat(coming) if coming else {}


class _Usher:
    def __init__(self, seating: Seating) -> None:
        self.seating = seating
        self.world = seating.world
        offers = _offers(seating)
        self.sizes = {offer.name: len(offer.slots) for offer in offers}
        self.slots = {offer.name: tuple(slot.name for slot in offer.slots) for offer in offers}
        self.largest = _largest(offers)
        self.placer = Placer(offers, self.world.claims)
        self.absent = {r: p for r, p in seating.refused.items() if r not in self.world.recorded}
        self.limits = Limits(seating.desired, self.world, self.sizes)
        self.groups = groups_of(self.world.claims)
        self.logins = set(self.world.counters.logins)
        self.logins.update(one.login for one in self.world.recorded.values() if one.login)
        self.accounts = Accounts(
            seating.desired, self.world.counters, Taken(self.world.observations)
        )

    def seat(self, coming: Mapping[Ref, Difference]) -> Mapping[Ref, Seat | Unseated]:
        seats: dict[Ref, Seat | Unseated] = {}
        requests: dict[Ref, Request] = {}
        for ref, difference in coming.items():
            request = self._request(difference)
            if isinstance(request, Request):
                requests[ref] = request
            else:
                seats[ref] = request
        waiting: list[Ref] = []
        for need in in_order((r.need for r in requests.values()), self.world.waiting):
            request = requests[need.ref]
            request = replace(request, need=self._located(request.need))
            requests[need.ref] = request
            found = self._seat(request, coming[need.ref])
            if found is None:
                waiting.append(need.ref)
            else:
                seats[need.ref] = found
        seats.update(self._explain(waiting, requests, coming, seats))
        return seats

    def _request(self, difference: Difference) -> Request | Unseated:
        resource = difference.resource
        assert resource is not None
        problem = absence(resource, self.absent)
        if problem is not None:
            return Unseated(problem=problem)
        need = KINDS[resource.ref.kind].needs(resource, self.seating.desired)
        if need is None:
            return Unseated(problem=_unreadable(resource))
        gpus = need.slots or max((self.largest.get(f, 0) for f in need.families), default=0)
        origin = self.seating.origins.get(resource.ref, Origin())
        return Request(resource=resource, need=need, gpus=gpus, origin=origin)

    def _seat(self, request: Request, difference: Difference) -> Seat | Unseated | None:
        """The seat; None where there is no place: the reasons are told once all others have
        theirs.
        """
        held = self._held_before(request, difference)
        if held:
            return self._join(difference, held)
        problem = self._refusal(difference) or self.limits.refusal(request)
        if problem is not None:
            return Unseated(problem=problem)
        placement = self.placer.place(request.need)
        if placement is None:
            return None
        self.limits.take(request)
        placement = replace(placement, why=describe(placement, spread=self.placer.spread))
        try:
            return self._join(difference, self._new_seat(request.need, placement))
        except ProblemError as error:
            # Used up: of logins, uids or gids. The others may have theirs still.
            return Unseated(problem=replace(error.problems[0], ref=str(request.resource.ref)))

    def _join(self, difference: Difference, seat: Seat) -> Seat | Unseated:
        """The seat, with everything that it takes beside its slots."""
        node = self._node(seat.placement.node)
        problem = self._refusal(difference, seat.id, node)
        if problem is not None:
            return Unseated(problem=problem)
        for one in self.seating.reservations:
            one.take(difference, seat.id, node)
        return seat

    def _located(self, need: Need) -> Need:
        for one in self.seating.reservations:
            need = one.located(need)
        return need

    def _refusal(
        self, difference: Difference, id: str = "", node: Resource[NodeSpec] | None = None
    ) -> Problem | None:
        """The first reason beside slots that refuses a place, or any place."""
        told = (one.refusal(difference, id, node) for one in self.seating.reservations)
        return next((problem for problem in told if problem is not None), None)

    def _node(self, name: str) -> Resource:
        return self.seating.desired.resources[Ref("node", "", name)]

    def _held_before(self, request: Request, difference: Difference) -> Seat | None:
        """The claims of an earlier attempt, if they are what is asked for now."""
        need, recorded = request.need, difference.recorded
        leaving = recorded.id if recorded and difference.action is Action.REPLACE else None
        for id, claims in self.groups.get(need.ref, {}).items():
            node = NODES.get(self.seating.desired, claims[0].node)
            if id == leaving or node is None or not can_resume(claims, need, node):
                continue
            known = recorded is not None and recorded.id == id
            login = recorded.login if recorded and known else self.world.counters.login_of.get(id)
            placement = placement_of(claims, self.slots[node.ref.name])
            placement = replace(placement, why="claimed before")
            uid, gid = self.accounts.of(id, need.project, node.spec.isolation, node.ref.name)
            return Seat(
                placement=placement,
                id=id,
                login=login or login_for(need.ref.name, id, self.logins),
                uid=uid,
                gid=gid,
            )
        return None

    def _new_seat(self, need: Need, placement: Placement) -> Seat:
        count = self.world.counters.incarnation(need.ref)
        id = allocation_id(self.world.state_id, need.ref, count + 1)
        login = login_for(need.ref.name, id, self.logins)
        node = self._node(placement.node)
        uid, gid = self.accounts.of(id, need.project, node.spec.isolation, node.ref.name)
        self.logins.add(login)
        seat = Seat(placement=placement, id=id, login=login, uid=uid, gid=gid)
        return replace(seat, claims=claims_of(seat, need.ref, need.tenant))

    def _explain(
        self,
        waiting: Sequence[Ref],
        requests: Mapping[Ref, Request],
        coming: Mapping[Ref, Difference],
        seats: Mapping[Ref, Seat | Unseated],
    ) -> Mapping[Ref, Unseated]:
        """Reasons are found once everybody else has a seat: what did not fit then fits even
        less.
        """
        known: dict[tuple[object, ...], Unavailable] = {}
        outlook = outlooks(
            [requests[ref].need for ref in waiting],
            self.placer.offers,
            self.world.claims,
            [intent for seat in seats.values() if isinstance(seat, Seat) for intent in seat.claims],
            ends_in(self.seating.differences, self.seating.refused, self.world) if waiting else {},
        )
        found = {}
        for ref in waiting:
            request = requests[ref]
            need = request.need
            same = (need.sku, need.tenant, need.project, need.pin, need.storage, need.runtimes)
            if same not in known:
                known[same] = self.placer.refusals(need)
            if told := self.placer.misfit(need):
                found[ref] = Unseated(problem=worded(coming[ref], told))
                continue
            why = replace(known[same], outlook=outlook[ref])
            replaces = coming[ref].action is Action.REPLACE
            problem = _no_place(request, why, replaces)
            found[ref] = Unseated(problem=problem, unavailable=None if replaces else why, need=need)
        return found


def _offers(seating: Seating) -> tuple[Offer, ...]:
    """Nodes in force, and refused ones, which are told apart and not left out."""
    desired = seating.desired
    refused = {
        difference.ref: difference.resource
        for difference in of_kind(seating.differences, "node")
        if difference.ref in seating.refused
        and difference.resource is not None
        and difference.ref not in desired.resources
    }
    blocked = {ref: seating.refused[ref].message for ref in refused}
    with_refused = replace(desired, resources={**desired.resources, **refused})
    offers = read_offers(with_refused, seating.world, seating.now, blocked, seating.preparing)
    return tuple(as_named(offer, NODES.get(desired, offer.name), seating.specs) for offer in offers)


def _largest(offers: Sequence[Offer]) -> Mapping[str, int]:
    """The most slots of any node of a family: what a whole node may cost at worst."""
    largest: dict[str, int] = {}
    for offer in offers:
        if Shape.BAREMETAL in offer.spec.shapes:
            family = offer.spec.family
            largest[family] = max(largest.get(family, 0), len(offer.slots))
    return largest


def _unreadable(resource: Resource) -> Problem:
    message = "nobody can say what it needs: its SKU or its project is not in force"
    return problem_of(resource, Refusal("resource_broken", message, "put their documents in order"))


def _no_place(request: Request, why: Unavailable, replaces: bool) -> Problem:
    ref = request.resource.ref
    code = "release_first" if replaces else "sku_unavailable"
    found = Refusal(code, counted(why.refusals), remedy(ref, why.refusals))
    return problem_of(request.resource, found)
