"""`why`: the reasons why a resource is as it is, each with the place that says so.

Who wanted it in which commit, who applied it, by which rule it was placed, who approved what it
stands on, what the host showed, who is let in by what, and what a plan would do about it now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.kinds.node.spec import NODES, NodeSpec
from reconciler.kinds.node_family import NODE_FAMILIES
from reconciler.model.host.evidence import Check
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded, World
from reconciler.operations.access.grant import review_access
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.inventory.ages import as_last_seen
from reconciler.operations.inventory.allocations import stage_in
from reconciler.operations.inventory.health import health_of
from reconciler.operations.links.case import Link, SpecPlace, WhyCase
from reconciler.operations.node.show import in_force
from reconciler.operations.options import PlanOptions
from reconciler.operations.plan.plan import plan_from
from reconciler.operations.references import ref_of, unknown_ref
from reconciler.operations.specs import read_desired, read_origins
from reconciler.operations.why.links import links_of
from reconciler.planner.placement.inventory import read_offers
from reconciler.planner.placement.readiness import readiness
from reconciler.store import queries
from reconciler.store.snapshot import read_world


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    ref: str
    links: tuple[Link, ...]


def why(fleet: Fleet, ref_text: str) -> Why:
    """From specs, state and a plan of now; no host is asked. Raises ProblemError `not_found`."""
    ref = ref_of(ref_text)
    with without_collector():
        with fleet.reading() as database:
            world = read_world(database)
            events = tuple(queries.events(database, str(ref)))
        desired = read_desired(fleet)
        case = _case(fleet, ref, world, desired)
    known = case.resource or case.recorded or events or ref in desired.frozen
    if not known:
        raise unknown_ref(fleet, world, ref, "neither in the specs nor in the state")
    return Why(ref=str(ref), links=tuple(links_of(replace(case, events=events))))


def _case(fleet: Fleet, ref: Ref, world: World, desired: Desired) -> WhyCase:
    resource, recorded = desired.resources.get(ref), world.recorded.get(ref)
    plan = plan_from(fleet, desired, world, PlanOptions())
    is_allocation = ref.kind == "allocation"
    name = world.node_of(ref)
    node = NODES.get(desired, name) if name else None
    access = review_access(fleet, "", str(ref)).rows if is_allocation and recorded else ()
    causes = [ref_of(row.cause) for row in access]
    project = [Ref("project", "", ref.project)] if ref.project else []
    stand = [ref, *([node.ref] if node else ()), *project, *causes]
    return WhyCase(
        ref=ref,
        now=fleet.now(),
        world=world,
        desired=desired,
        resource=resource,
        recorded=recorded,
        change=next((change for change in plan.changes if change.ref == ref), None),
        health=_health(fleet, world, recorded) if recorded and is_allocation else "",
        node=node,
        approvals=tuple(in_force(node.spec)) if node else (),
        checks=_checks(fleet, world, desired, node) if node else (),
        access=access,
        places=_places(fleet, desired, stand),
    )


def _health(fleet: Fleet, world: World, recorded: Recorded) -> str:
    health = health_of(recorded, stage_in(world, recorded.ref), world)
    since = world.claimed_since(recorded)
    return as_last_seen(fleet, recorded.ref, health, since)[1].told(fleet.now())


def _checks(
    fleet: Fleet, world: World, desired: Desired, node: Resource[NodeSpec]
) -> tuple[Check, ...]:
    offers = read_offers(desired, world, fleet.now(), {})
    offer = next(one for one in offers if one.name == node.ref.name)
    family = NODE_FAMILIES.get(desired, node.spec.family)
    return tuple(readiness(offer, family.spec if family else None))


def _places(fleet: Fleet, desired: Desired, refs: Iterable[Ref]) -> Mapping[Ref, SpecPlace]:
    """File, line and commit of each document that git has."""
    found = [one for ref in refs if (one := desired.resources.get(ref)) is not None]
    commits = read_origins(fleet, {one.ref: one.file for one in found})
    return {
        one.ref: SpecPlace(file=one.file, line=one.line, origin=commits[one.ref]) for one in found
    }
