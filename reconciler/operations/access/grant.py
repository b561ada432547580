"""Access as last applied: who is let in where and why, and stray keys on hosts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from reconciler.kinds.access.doors import doors
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.node.spec import NODES
from reconciler.model.host.capacity import Isolation
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.settings import Settings
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import Revocation, World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.references import insist_on_name, insist_on_ref, ref_of
from reconciler.operations.views import AccessReview, AccessRow
from reconciler.planner.access.suspensions import scopes_at
from reconciler.planner.core.effective_spec import recorded_of
from reconciler.planner.drift.notes import StrayKey, stray_keys
from reconciler.store.snapshot import read_world

LET_IN = frozenset({"allocation", "grant", "user", "project"})
"""Kinds that decide who is let in."""


def review_access(fleet: Fleet, user: str = "", allocation: str = "") -> AccessReview:
    """Access in both directions: what each user may enter, and who may enter each allocation."""
    ref = ref_of(allocation) if allocation else None
    with without_collector():
        with fleet.reading() as database:
            world = read_world(database)
            insist_on_name(fleet, database, world, "user", user)
            if ref is not None:
                insist_on_ref(fleet, database, world, ref)
        rows = tuple(
            row
            for row in access_rows(fleet.settings, world, fleet.now())
            if user in ("", row.user) and (ref is None or row.allocation == str(ref))
        )
    reviewed = {row.allocation for row in rows} if user or ref else None

    def is_reviewed(one: StrayKey | Revocation) -> bool:
        return reviewed is None or str(one.ref) in reviewed

    return AccessReview(
        rows=rows,
        strays=tuple(filter(is_reviewed, stray_keys(world))),
        pending=tuple(filter(is_reviewed, world.revocations)),
        unseen=_unseen(world, reviewed),
    )


def access_rows(settings: Settings, world: World, now: datetime) -> Iterator[AccessRow]:
    """Every reason for anybody's access to anything, as last applied."""
    known = [ref for kind in LET_IN for ref in world.refs_of(kind)]
    resources = {one.ref: one for one in recorded_of(world, known)}
    shut_out = scopes_at(world.suspensions, now)
    desired = Desired(settings=settings, resources=resources, digest="", suspended=shut_out)
    for resource in ALLOCATIONS.of(desired):
        phase = world.recorded[resource.ref].phase
        for door in doors(resource, desired, now):
            yield AccessRow(
                allocation=str(resource.ref),
                user=door.user,
                cause=str(door.cause),
                state=door.state if phase is Phase.ACTIVE else phase,
                privilege=door.privilege,
                keys=door.keys if phase is Phase.ACTIVE else (),
                until=door.until,
                reason=door.reason,
            )


def _unseen(world: World, reviewed: set[str] | None) -> tuple[str, ...]:
    """Nodes of these allocations whose last answer did not say which keys are there.

    A node that is a folder has nobody who could log in.
    """
    nodes = {
        one.node
        for ref, one in world.recorded.items()
        if one.login and (reviewed is None or str(ref) in reviewed) and _has_logins(world, one.node)
    }
    seen = {
        name
        for name, one in world.observations.items()
        if one.facts is not None and one.facts.stray_keys is not None
    }
    return tuple(sorted(nodes - seen))


def _has_logins(world: World, node: str) -> bool:
    recorded = NODES.last(world, node)
    return recorded is None or recorded.isolation is not Isolation.DIRECTORY
