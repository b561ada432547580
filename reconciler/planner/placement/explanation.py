"""Explanation: how placement sees every node for one ref, and why the node fits or not."""

from __future__ import annotations

from datetime import datetime

from reconciler.kinds.node.spec import NODES, NodeSpec
from reconciler.kinds.registry import KINDS
from reconciler.model.host.capacity import Candidate
from reconciler.model.plan.plan import Action, Plan
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import World
from reconciler.planner.placement.inventory import read_offers
from reconciler.planner.placement.scheduler import Placer
from reconciler.planner.storage.attachments import AttachmentLedger


def explain(
    desired: Desired, world: World, now: datetime, ref: Ref, made: Plan | None = None
) -> tuple[Candidate, ...]:
    """Every node as placement sees it for `ref`; () for what asks for no place.

    With the plan `made` of the same input all others have their places already. The place of its
    own counts as free, unless that plan would move it away from there.
    """
    resource = desired.resources.get(ref)
    need = KINDS[ref.kind].needs(resource, desired) if resource else None
    if need is None:
        return ()
    blocked = {node.ref: why for node in NODES.of(desired) if (why := _blocked(node))}
    moves = made is not None and any(
        c.ref == ref and (c.action is Action.REPLACE or c.problem) for c in made.changes
    )
    claims = [claim for claim in world.claims if claim.ref != ref or moves]
    intents = [intent for intent in (made.claims if made else ()) if intent.ref != ref]
    worked_on = (c.ref for c in (made.changes if made else ()) if c.steps)
    preparing = frozenset(NODES.among(worked_on))
    offers = read_offers(desired, world, now, blocked, preparing)
    need = AttachmentLedger(desired, world, {}).located(need)
    return Placer(offers, (*claims, *(intent.held() for intent in intents))).explain(need)


def _blocked(node: Resource[NodeSpec]) -> str:
    what = KINDS["node"].unsupported(node)
    return f"not yet supported: {what}" if what else ""
