"""Lines of allocations: what each action on one becomes, by its place and what its host shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from reconciler.kinds.contract import Binding
from reconciler.kinds.registry import KINDS
from reconciler.kinds.sku import SKUS
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.plan import Action, Cause, Change, Step
from reconciler.model.state.world import Recorded, World
from reconciler.planner.bundles.text import switching
from reconciler.planner.changes import text
from reconciler.planner.changes.change_set import ChangeSet, causes_of
from reconciler.planner.changes.line import Line, change_of, end_of_lease, price_before, with_steps
from reconciler.planner.changes.release import released, restored, retiring
from reconciler.planner.changes.repair import mends, sparing
from reconciler.planner.changes.repair import told as drift_told
from reconciler.planner.changes.restart import restarted
from reconciler.planner.changes.stale import Stale
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.facts import differing
from reconciler.planner.core.seat import Seat
from reconciler.planner.identity.render_hash import basis_of
from reconciler.planner.storage.text import mounting


def _create(difference: Difference, changes: ChangeSet) -> Line:
    seat, binding = _taking(difference, changes)
    steps = KINDS[difference.ref.kind].steps(binding, changes.context)
    change = _seated(change_of(difference, changes), seat, binding, changes)
    return Line(change=with_steps(change, steps), steps=steps, claims=seat.claims)


def _replace(difference: Difference, changes: ChangeSet) -> Line:
    """The new place is provided first; only then is the old one given up."""
    change, recorded = change_of(difference, changes), difference.recorded
    taken: tuple[Step, ...] = ()
    claims: tuple[ClaimIntent, ...] = ()
    if difference.finishing and recorded is not None:
        staying = recorded.id
    else:
        seat, binding = _taking(difference, changes)
        staying, claims = seat.id, seat.claims
        taken = KINDS[difference.ref.kind].steps(binding, changes.context)
        change = _seated(change, seat, binding, changes)
    retired = retiring(difference, staying, changes)
    needed = frozenset(step.id for step in taken)
    return Line(
        change=with_steps(change, (*taken, *retired)),
        steps=(*taken, *retired),
        claims=claims,
        after={step.id: needed for step in retired},
    )


def _release(difference: Difference, changes: ChangeSet) -> Line:
    change, steps = released(change_of(difference, changes), difference, changes)
    return Line(change=with_steps(change, steps), steps=steps)


def _restore(difference: Difference, changes: ChangeSet) -> Line:
    change, steps = restored(change_of(difference, changes), difference, changes)
    return Line(change=with_steps(change, steps), steps=steps)


def _keep_in_step(difference: Difference, changes: ChangeSet) -> Line:
    """An allocation that stays where it is: work only where its host shows something else."""
    change = change_of(difference, changes)
    stale = changes.stale.get(difference.ref)
    if stale is None or stale.binding.recorded is None:
        return Line(change=change)
    recorded, drifted = stale.binding.recorded, stale.drifted
    steps = tuple(
        sparing(step, recorded, drifted)
        for step in KINDS[difference.ref.kind].steps(stale.binding, changes.context)
        if _differs(step, recorded, changes.context.world) or mends(step, drifted)
    )
    facts = dict(text.change_facts(stale.resource, changes.context.desired, changes.context.now))
    facts |= switching(stale.resource, recorded, recorded.node, changes.context)
    change = replace(
        with_steps(change, steps),
        basis=stale.basis,
        caused_by=causes_of(stale, changes),
        facts={**drift_told(drifted), **change.facts, **mounting(steps, recorded), **facts},
    )
    return Line(change=change, steps=steps)


def _restart(difference: Difference, changes: ChangeSet) -> Line:
    change, steps, after = restarted(change_of(difference, changes), difference, changes)
    return Line(change=change, steps=steps, after=after)


WRITERS: Mapping[Action, Callable[[Difference, ChangeSet], Line]] = MappingProxyType(
    {
        Action.CREATE: _create,
        Action.REPLACE: _replace,
        Action.RELEASE: _release,
        Action.CHANGE: _keep_in_step,
        Action.ADOPT: _keep_in_step,
        Action.RESTART: _restart,
        Action.RESTORE: _restore,
        # A name is nothing on a host; but whoever is to be shut out waits for no second plan.
        Action.RENAME: _keep_in_step,
    }
)
"""How lines with work on hosts are written; all others have none."""


def line_of_causes(stale: Stale, changes: ChangeSet) -> Line:
    difference = Difference(
        ref=stale.resource.ref,
        action=Action.REPAIR if stale.only_drifted else Action.CHANGE,
        resource=stale.resource,
        recorded=stale.binding.recorded,
    )
    line = _keep_in_step(difference, changes)
    if not stale.rerendered:
        return replace(line, confirms=not line.steps and not line.change.caused_by)
    change = replace(line.change, cause=Cause.RERENDERED, caused_by=())
    return replace(line, change=change, confirms=not line.steps)


def _taking(difference: Difference, changes: ChangeSet) -> tuple[Seat, Binding]:
    seat = changes.seats[difference.ref]
    if not isinstance(seat, Seat):
        raise TypeError(f"{difference.ref} has no seat")
    binding = Binding(
        ref=difference.ref,
        id=seat.id,
        login=seat.login,
        placement=seat.placement,
        resource=difference.resource,
        recorded=None,
        uid=seat.uid,
        gid=seat.gid,
        replaces=_before(difference),
    )
    return seat, binding


def _before(difference: Difference) -> Recorded | None:
    """The one whose lease goes on, wherever it goes."""
    return difference.recorded if difference.action is Action.REPLACE else None


def _differs(step: Step, recorded: Recorded, world: World) -> bool:
    """By what was recorded; and where that is in doubt, by what its host shows or does not say."""
    if any(recorded.facts.get(path, "") != fact for path, fact in step.expected.items()):
        return True
    if recorded.basis:
        return False
    seen = world.observations.get(step.node)
    return any(differing(seen.facts if seen else None, step.expected))


def _seated(change: Change, seat: Seat, binding: Binding, changes: ChangeSet) -> Change:
    resource, context = binding.resource, changes.context
    if resource is None:
        return change
    placement, end = seat.placement, end_of_lease(resource, binding.replaces, context)
    gpus = len(placement.slots)
    price = text.price(SKUS.get(context.desired, resource.spec.sku), gpus, context.now)
    return replace(
        change,
        summary=text.size_of(placement.slots),
        placement=placement,
        allocation_id=seat.id,
        login=seat.login,
        expires_at=end,
        basis=basis_of(KINDS[resource.ref.kind].basis(binding, context)),
        gpus=gpus,
        price_per_hour=text.price_delta(price, price_before(change.ref, changes)),
        rate_per_hour=text.price_delta(price, {}),
        facts={
            **text.create_facts(resource, seat.login, placement, context.desired, context.now),
            "until": text.until(resource, end, context.desired, context.now),
            **text.vouched_facts(placement, context.world),
            **switching(resource, binding.replaces, placement.node, context),
            **change.facts,
        },
    )
