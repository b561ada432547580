"""A line of a plan: a change with its steps and claims, and what every line says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.contract import Context
from reconciler.kinds.lease import end_of
from reconciler.kinds.sku import SKUS
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Change, Step
from reconciler.model.problem import HELD_CODES, Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Origin
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded
from reconciler.planner.changes import text
from reconciler.planner.changes.change_set import ChangeSet
from reconciler.planner.changes.stale import binding_of
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.effective_spec import as_recorded
from reconciler.planner.core.risks import risk_of
from reconciler.planner.core.seat import WITH_CAPACITY, Unseated
from reconciler.planner.lifecycle.lease import gives_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A change and what it brings: `after` maps a step to those that must have ended before.

    One that `confirms` changes nothing: what was in doubt shows what it should.
    """

    change: Change
    steps: tuple[Step, ...] = ()
    claims: tuple[ClaimIntent, ...] = ()
    after: Mapping[str, frozenset[str]] = field(default_factory=dict)
    confirms: bool = False


def refused_change(difference: Difference, problem: Problem, changes: ChangeSet) -> Change:
    """Nothing of it will be done; what was held or frozen says what it would have been."""
    change = change_of(difference, changes)
    waits, facts = _unavailable(difference, changes)
    held = problem.code in HELD_CODES
    keeps_its_name = held or difference.action is Action.FROZEN
    return replace(
        change,
        summary=waits or change.summary,
        facts=change.facts if held else facts,
        action=difference.action if keeps_its_name else Action.BLOCKED,
        problem=problem,
        # Who waits, and for what, may be told; other documents may hold what nobody is to see.
        normal=change.normal if difference.ref.kind in WITH_CAPACITY else None,
        digest="",
    )


def _unavailable(difference: Difference, changes: ChangeSet) -> tuple[str, Mapping[str, str]]:
    """How it waits, and what is known about its chances; nothing for what has no need to wait."""
    ref, resource, context = difference.ref, difference.resource, changes.context
    seat = changes.seats.get(ref)
    if not isinstance(seat, Unseated) or seat.unavailable is None or seat.need is None:
        return "", {}
    position = (changes.positions[ref], len(changes.positions))
    until = gives_up(resource, context.desired, context.world) if resource else None
    waits = text.waiting(position, context.world.waiting.get(ref, ""), until, context.now)
    return waits, text.unavailable_facts(seat.need, seat.unavailable)


def with_steps(change: Change, steps: tuple[Step, ...]) -> Change:
    return replace(change, steps=tuple(step.id for step in steps))


def change_of(difference: Difference, changes: ChangeSet) -> Change:
    """What every line says, whatever becomes of it."""
    resource, recorded, context = difference.resource, difference.recorded, changes.context
    change = Change(
        ref=difference.ref,
        action=difference.action,
        risk=risk_of(difference.action, is_forced=difference.ref in context.forced),
        summary=text.summary_of(resource, context.now) if resource else "",
        file=difference.file,
        line=resource.line if resource else 0,
        origin=context.origins.get(difference.ref, Origin()),
        fields=difference.fields,
        former=difference.former,
        cause=difference.cause,
        normal=resource.normal if resource else None,
        digest=resource.digest if resource else "",
        protect=bool(getattr(resource.spec, "protect", False)) if resource else False,
    )
    if recorded is not None and recorded.id:
        end = end_of_lease(resource, recorded, context) if resource else None
        return _in_place(replace(change, expires_at=end), recorded, changes)
    return change


def end_of_lease(resource: Resource, recorded: Recorded | None, context: Context) -> str:
    return end_of(resource, recorded, context.desired, context.leases_from or context.now)


def _in_place(change: Change, recorded: Recorded, changes: ChangeSet) -> Change:
    """What a recorded allocation is and holds; and what is lost, where it goes."""
    context = changes.context
    claims = changes.groups.get(recorded.ref, {}).get(recorded.id, ())
    words = (
        text.size_of(recorded.slots),
        f"owner {recorded.normal['spec']['owner']}",
        text.held_since(claims, context.now),
    )
    leaves = change.action in (Action.RELEASE, Action.REPLACE)
    gone = price_before(recorded.ref, changes) if change.action is Action.RELEASE else {}
    grants = changes.grants.get(recorded.ref, ()) if leaves else ()
    return replace(
        change,
        summary=" · ".join(filter(None, words)),
        placement=binding_of(recorded, None, context.world).placement,
        allocation_id=recorded.id,
        login=recorded.login,
        gpus=len(recorded.slots),
        price_per_hour=text.price_delta({}, gone),
        facts=text.release_facts(recorded, grants, context.world, context.now) if leaves else {},
    )


def price_before(ref: Ref, changes: ChangeSet) -> Mapping[str, Decimal]:
    """What an allocation costs as it was recorded."""
    context = changes.context
    recorded = context.world.recorded.get(ref)
    if recorded is None or not recorded.id or recorded.phase is not Phase.ACTIVE:
        return {}
    name = ALLOCATIONS.applied(recorded).sku
    sku = SKUS.get(context.desired, name)
    before = context.world.recorded.get(Ref("sku", "", name))
    if sku is None and before is not None:
        sku = as_recorded(before)
    return text.price(sku, len(recorded.slots), context.now)
