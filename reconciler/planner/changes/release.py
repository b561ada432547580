"""Releases in a plan: how far each one goes, who agreed to it, and how it can be undone.

The order is always the same: keys off and sessions ended, everything that runs, in quarantine for
as long as it can be taken back, then the wipe, its proof, and only then the place is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.kinds.registry import KINDS
from reconciler.kinds.sku import SKUS
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Cause, Change, Step
from reconciler.planner.changes import text
from reconciler.planner.changes.change_set import ChangeSet, leaving_bindings
from reconciler.planner.changes.stale import binding_of
from reconciler.planner.core.difference import Difference
from reconciler.planner.identity.render_hash import basis_of


def released(
    change: Change, difference: Difference, changes: ChangeSet
) -> tuple[Change, tuple[Step, ...]]:
    """First the allocation is only shut off, where it can be taken back; a later plan removes the
    rest.
    """
    context, recorded = changes.context, difference.recorded
    minutes = difference.undo_minutes
    facts = {**change.facts, **_facts(difference, minutes)}
    if difference.cause is Cause.CONSENTED and difference.ref in context.desired.resources:
        facts["why"] = "its file came back too late: it becomes a new one after this"
    told = replace(change, undo_minutes=minutes, facts=facts)
    if not minutes or recorded is None:
        return told, retiring(difference, "", changes)
    binding = replace(binding_of(recorded, None, context.world), quarantine=True)
    return told, KINDS[recorded.ref.kind].steps(binding, context)


def restored(
    change: Change, difference: Difference, changes: ChangeSet
) -> tuple[Change, tuple[Step, ...]]:
    """Everything that its host should show is asserted once more, however far its end had come."""
    resource, recorded, context = difference.resource, difference.recorded, changes.context
    if resource is None or recorded is None:
        return change, ()
    kind, binding = KINDS[difference.ref.kind], binding_of(recorded, resource, context.world)
    price = text.price(SKUS.get(context.desired, resource.spec.sku), change.gpus, context.now)
    rate = text.price_delta(price, {})
    told = replace(
        change,
        basis=basis_of(kind.basis(binding, context)),
        price_per_hour=rate,
        rate_per_hour=rate,
        facts={
            "returns": "login, keys, home and scratch; its sessions and processes had ended",
            **text.change_facts(resource, context.desired, context.now),
        },
    )
    return told, kind.steps(binding, context)


def retiring(difference: Difference, staying: str, changes: ChangeSet) -> tuple[Step, ...]:
    """The end of every allocation of a ref except `staying`."""
    kind = KINDS[difference.ref.kind]
    leaving = leaving_bindings(difference.ref, difference.recorded, staying, changes)
    return tuple(step for binding in leaving for step in kind.steps(binding, changes.context))


def _facts(difference: Difference, minutes: int) -> Mapping[str, str]:
    recorded = difference.recorded
    if recorded is None:
        return {}
    told = {}
    if minutes:
        told["order"] = (
            f"revoke > quarantine {minutes} min (git revert restores) > wipe > proof > free"
        )
        told["keeps"] = "its place and all it has, for so long; nothing is billed"
    if difference.cause is Cause.EXPIRED:
        told["consent"] = f"its time was over on {recorded.expires_at}, as was known"
    elif recorded.undo_until:
        told["consent"] = f"given with the release; it could come back until {recorded.undo_until}"
    if recorded.phase is Phase.RELEASING:
        told["joins"] = "nothing any more: what its file changes waits for the end of this"
    return told
