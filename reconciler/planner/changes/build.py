"""The lines of a plan: each difference becomes one Change with its steps and claims.

An allocation whose files on its host follow from something else, a key or a grant or a template,
gets a line of its own that names the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType

from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.contract import Binding, Context
from reconciler.kinds.lease import end_of
from reconciler.kinds.registry import KINDS
from reconciler.kinds.sku import SKUS
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Cause, Change, ClaimIntent, Step
from reconciler.model.problem import HELD_CODES, Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Origin
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded, World
from reconciler.planner.bundles.text import switching
from reconciler.planner.changes import text
from reconciler.planner.changes.change_set import ChangeSet, causes_of
from reconciler.planner.changes.held_work import Held
from reconciler.planner.changes.release import released, restored, retiring
from reconciler.planner.changes.repair import mends, sparing
from reconciler.planner.changes.repair import told as drift_told
from reconciler.planner.changes.restart import restarted
from reconciler.planner.changes.stale import Stale, binding_of
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.effective_spec import as_recorded
from reconciler.planner.core.facts import differing
from reconciler.planner.core.risks import risk_of
from reconciler.planner.core.seat import WITH_CAPACITY, Seat, Unseated
from reconciler.planner.core.task import Task
from reconciler.planner.identity.render_hash import basis_of
from reconciler.planner.lifecycle.lease import gives_up
from reconciler.planner.storage.text import mounting


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


def write_lines(differences: tuple[Difference, ...], changes: ChangeSet) -> Iterator[Line]:
    """A line for every difference, and for every allocation that only its causes change."""
    told: set[Ref] = set()
    for difference in differences:
        line = _line(difference, changes)
        told.update({difference.ref} if line.change.problem is None else ())
        yield line
    for ref, stale in changes.stale.items():
        if ref not in told:
            yield _line_of_causes(stale, changes)
    for ref, task in changes.tasks.items():
        if ref not in told:
            yield _line_of_task(task, changes)


def held_lines(held: Iterable[Held], changes: ChangeSet) -> Iterator[Line]:
    """A line for what does not go alone, though no document asks for it."""
    for difference, problem, cause in held:
        yield Line(change=replace(refused_change(difference, problem, changes), cause=cause))


def _line(difference: Difference, changes: ChangeSet) -> Line:
    ref = difference.ref
    problem = changes.refused.get(ref)
    if problem is not None:
        return Line(change=refused_change(difference, problem, changes))
    if difference.finishing and ref in changes.stale:
        # Taking away access waits for no cleanup: what a replace left behind comes after.
        first = _line_of_causes(changes.stale[ref], changes)
        if not first.confirms:
            return first
    if ref in changes.tasks:
        return _do(difference, changes.tasks[ref], changes)
    if ref.kind in WITH_CAPACITY:
        return WRITERS.get(difference.action, _plain)(difference, changes)
    return _plain(difference, changes)


def refused_change(difference: Difference, problem: Problem, changes: ChangeSet) -> Change:
    """Nothing of it will be done; what was held or frozen says what it would have been."""
    change = _change(difference, changes)
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


def _plain(difference: Difference, changes: ChangeSet) -> Line:
    return Line(change=_change(difference, changes))


def _do(difference: Difference, task: Task, changes: ChangeSet) -> Line:
    """What a task does, whatever else changes about its ref."""
    change = _change(difference, changes)
    change = replace(change, facts={**change.facts, **task.facts}, basis=task.basis or change.basis)
    return Line(change=_with(change, task.steps), steps=task.steps)


def _line_of_task(task: Task, changes: ChangeSet) -> Line:
    """One about whose ref nothing else changes."""
    difference, problem = task.difference, changes.refused.get(task.ref)
    held = Line(change=refused_change(difference, problem, changes)) if problem else None
    line = held or _do(difference, task, changes)
    risk, cause = task.risk or line.change.risk, task.cause
    return replace(line, change=replace(line.change, risk=risk, cause=cause))


def _create(difference: Difference, changes: ChangeSet) -> Line:
    seat, binding = _taking(difference, changes)
    steps = KINDS[difference.ref.kind].steps(binding, changes.context)
    change = _seated(_change(difference, changes), seat, binding, changes)
    return Line(change=_with(change, steps), steps=steps, claims=seat.claims)


def _replace(difference: Difference, changes: ChangeSet) -> Line:
    """The new place is provided first; only then is the old one given up."""
    change, recorded = _change(difference, changes), difference.recorded
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
        change=_with(change, (*taken, *retired)),
        steps=(*taken, *retired),
        claims=claims,
        after={step.id: needed for step in retired},
    )


def _release(difference: Difference, changes: ChangeSet) -> Line:
    change, steps = released(_change(difference, changes), difference, changes)
    return Line(change=_with(change, steps), steps=steps)


def _restore(difference: Difference, changes: ChangeSet) -> Line:
    change, steps = restored(_change(difference, changes), difference, changes)
    return Line(change=_with(change, steps), steps=steps)


def _keep_in_step(difference: Difference, changes: ChangeSet) -> Line:
    """An allocation that stays where it is: work only where its host shows something else."""
    change = _change(difference, changes)
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
        _with(change, steps),
        basis=stale.basis,
        caused_by=causes_of(stale, changes),
        facts={**drift_told(drifted), **change.facts, **mounting(steps, recorded), **facts},
    )
    return Line(change=change, steps=steps)


def _restart(difference: Difference, changes: ChangeSet) -> Line:
    change, steps, after = restarted(_change(difference, changes), difference, changes)
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


def _line_of_causes(stale: Stale, changes: ChangeSet) -> Line:
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


def _with(change: Change, steps: tuple[Step, ...]) -> Change:
    return replace(change, steps=tuple(step.id for step in steps))


def _seated(change: Change, seat: Seat, binding: Binding, changes: ChangeSet) -> Change:
    resource, context = binding.resource, changes.context
    if resource is None:
        return change
    placement, end = seat.placement, _end(resource, binding.replaces, context)
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
        price_per_hour=text.price_delta(price, _price_before(change.ref, changes)),
        rate_per_hour=text.price_delta(price, {}),
        facts={
            **text.create_facts(resource, seat.login, placement, context.desired, context.now),
            "until": text.until(resource, end, context.desired, context.now),
            **text.vouched_facts(placement, context.world),
            **switching(resource, binding.replaces, placement.node, context),
            **change.facts,
        },
    )


def _change(difference: Difference, changes: ChangeSet) -> Change:
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
        end = _end(resource, recorded, context) if resource else None
        return _in_place(replace(change, expires_at=end), recorded, changes)
    return change


def _end(resource: Resource, recorded: Recorded | None, context: Context) -> str:
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
    gone = _price_before(recorded.ref, changes) if change.action is Action.RELEASE else {}
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


def _price_before(ref: Ref, changes: ChangeSet) -> Mapping[str, Decimal]:
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
