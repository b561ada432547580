"""Fencing: a host that was declared lost and answers again lets nobody in (rule 11).

Its tenants may have been given other places meanwhile. What it holds stays as it is.
"""

from __future__ import annotations

from reconciler.kinds.contract import Context
from reconciler.kinds.node.spec import AdminState
from reconciler.model.ref import Ref


def is_fenced(node: str, context: Context) -> bool:
    """Whether the keys on it go. A silent one can be told nothing, so nothing is asked of it."""
    resource = context.desired.resources.get(Ref("node", "", node))
    if resource is None or resource.spec.admin.state is not AdminState.LOST:
        return False
    seen = context.world.observations.get(node)
    return seen is not None and seen.facts is not None and not seen.problem
