"""Recorded slots: what specs still name of a node that stays as it was recorded.

A change of a node may be refused, held, or not asked for, and a document may be gone or not be
legible. Who is on the node keeps what they have; what specs do not name is offered to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.kinds.approval import HOST, approved_names
from reconciler.kinds.node.spec import AdminState, NodeSpec, Slot
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.planner.placement.inventory import Offer

UNNAMED = "no spec names it any more"
ILLEGIBLE = "its document cannot be read"
OTHERWISE = "specs say otherwise of it, which is not applied"
OF_THE_HOST = ("address", "root", "identity", "family", "isolation", "sharing", "shapes")


def as_named(offer: Offer, node: Resource[NodeSpec] | None, specs: Desired) -> Offer:
    """The offer of a `node` in force, less what `specs` do not offer as well."""
    ref = Ref("node", "", offer.name)
    named = specs.resources.get(ref)
    if named is node or node is None:
        return offer
    if named is None:
        illegible = ref in specs.frozen or specs.unread(ref)
        return replace(offer, unnamed=ILLEGIBLE if illegible else UNNAMED)
    if why := _of_the_host(node.spec, named.spec):
        return replace(offer, unnamed=why)
    hidden = _of_slots(node.spec, named.spec)
    slots = tuple(
        replace(slot, unnamed=hidden[slot.name]) if slot.name in hidden else slot
        for slot in offer.slots
    )
    return replace(offer, slots=slots)


def _of_the_host(before: NodeSpec, after: NodeSpec) -> str:
    if after.admin.state is not AdminState.ACTIVE:
        return f"specs say that it is {after.admin.state}, which is not applied"
    if HOST not in approved_names(after):
        return "not approved as specs have it now"
    differs = any(getattr(before, field) != getattr(after, field) for field in OF_THE_HOST)
    return OTHERWISE if differs else ""


def _of_slots(before: NodeSpec, after: NodeSpec) -> Mapping[str, str]:
    named = {slot.name: slot for slot in after.slots}
    approved = approved_names(after)
    told = {slot.name: _of_slot(slot, named.get(slot.name), approved) for slot in before.slots}
    return {name: why for name, why in told.items() if why}


def _of_slot(before: Slot, after: Slot | None, approved: frozenset[str]) -> str:
    if after is None:
        return UNNAMED
    if after.disabled is not None:
        return f"specs disable it: {after.disabled.reason}"
    if replace(before, disabled=None) != after:
        return OTHERWISE
    return "" if after.name in approved else "not approved as specs have it now"
