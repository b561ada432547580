"""The change set: everything that is decided before the changes of a plan are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from reconciler.kinds.access.keys import in_force as grant_in_force
from reconciler.kinds.contract import Binding, Context
from reconciler.kinds.grant import GRANTS
from reconciler.kinds.user import USERS
from reconciler.model.host.capacity import Claim
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded
from reconciler.planner.automation.tickets import Tickets
from reconciler.planner.changes.stale import Stale, binding_of
from reconciler.planner.core.difference import Difference, of_kind
from reconciler.planner.core.effective_spec import as_recorded
from reconciler.planner.core.seat import Seat, Unseated, placement_of
from reconciler.planner.core.task import Task
from reconciler.planner.identity.accounts import account_of
from reconciler.planner.identity.claims import groups_of
from reconciler.planner.identity.identity import former_login
from reconciler.planner.placement.scheduler import in_order


@dataclass(frozen=True, kw_only=True)
class ChangeSet:
    """`context` knows what will be in force; `changed` are the differences that are carried out.

    `stale` are allocations to be kept in step, `tasks` what features bring beside that.
    """

    context: Context
    refused: Mapping[Ref, Problem]
    changed: Mapping[Ref, Difference]
    seats: Mapping[Ref, Seat | Unseated]
    stale: Mapping[Ref, Stale]
    tasks: Mapping[Ref, Task] = field(default_factory=dict)
    tickets: Tickets = field(default_factory=Tickets)

    @cached_property
    def groups(self) -> Mapping[Ref, Mapping[str, tuple[Claim, ...]]]:
        """Live claims by ref, then by allocation id."""
        return groups_of(self.context.world.claims)

    @cached_property
    def positions(self) -> Mapping[Ref, int]:
        """Requests without a place, in order, counted from 1."""
        needs = [
            seat.need
            for seat in self.seats.values()
            if isinstance(seat, Unseated) and seat.unavailable and seat.need
        ]
        ordered = in_order(needs, self.context.world.waiting)
        return {need.ref: at for at, need in enumerate(ordered, start=1)}

    @cached_property
    def grants(self) -> Mapping[Ref, tuple[Resource, ...]]:
        """Grants by allocation, as they will be in force and as they were."""
        changed = (d.recorded for d in of_kind(self.changed.values(), "grant"))
        before = [as_recorded(recorded) for recorded in changed if recorded is not None]
        found: dict[Ref, list[Resource]] = {}
        for grant in (*GRANTS.of(self.context.desired), *before):
            ref = Ref("allocation", grant.ref.project, grant.spec.allocation)
            found.setdefault(ref, []).append(grant)
        return {ref: tuple(grants) for ref, grants in found.items()}


def leaving_bindings(
    ref: Ref, recorded: Recorded | None, staying: str, changes: ChangeSet
) -> tuple[Binding, ...]:
    """Every allocation of `ref` that is to go: all that is recorded or claimed but `staying`."""
    world = changes.context.world
    living = {one.login for one in world.recorded.values()}
    leaving = []
    if recorded is not None and recorded.id and recorded.id != staying:
        leaving.append(binding_of(recorded, None, world))
    for id, claims in changes.groups.get(ref, {}).items():
        if id != staying and (recorded is None or id != recorded.id):
            known = world.counters.login_of.get(id)
            login = known or former_login(ref.name, id, world.counters.logins, living)
            uid, gid = account_of(id, ref.project, world.counters)
            leaving.append(
                Binding(
                    ref=ref,
                    id=id,
                    login=login,
                    placement=placement_of(claims, ()),
                    resource=None,
                    recorded=None,
                    uid=uid,
                    gid=gid,
                )
            )
    return tuple(leaving)


def causes_of(stale: Stale, changes: ChangeSet) -> tuple[Ref, ...]:
    """Why an allocation's files change: changes of this plan, people who are gone, and ended
    grants.
    """
    ref, spec = stale.resource.ref, stale.resource.spec
    grants = changes.grants.get(ref, ())
    users = {*spec.access, *(grant.spec.user for grant in grants)}
    related = {
        Ref("project", "", ref.project),
        Ref("node", "", stale.binding.placement.node),
        *(Ref("user", "", user) for user in users),
        *(grant.ref for grant in grants),
        *(Ref("storage", ref.project, one.name) for one in spec.storage),
    }
    over = {g.ref for g in grants if not grant_in_force(g, changes.context.now)}
    gone = {*USERS.among(related)} & changes.context.world.recorded.keys()
    gone -= changes.context.desired.resources.keys()
    shut_out = {one for one in related if str(one) in changes.context.desired.suspended}
    return tuple(sorted((related & changes.changed.keys()) | over | gone | shut_out))
