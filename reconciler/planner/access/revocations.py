"""Revocations: whose access ends with a step, known beforehand to report it while it is pending.

Once a change is recorded nothing else remembers who was let in before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from reconciler.kinds.access.fencing import is_fenced
from reconciler.kinds.access.keys import KeyLine, key_lines
from reconciler.kinds.allocation.spec import ALLOCATIONS
from reconciler.kinds.contract import Context
from reconciler.kinds.grant import GRANTS
from reconciler.model.moment import parse_moment
from reconciler.model.plan.items.access import SyncItem
from reconciler.model.plan.plan import Action, Change, Step
from reconciler.model.plan.verb import Verb
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.state.world import World
from reconciler.planner.access.suspensions import before
from reconciler.planner.core.effective_spec import recorded_of

Lines = tuple[KeyLine, ...]


def name_revoked(steps: Sequence[Step], context: Context, former: Mapping[Ref, Ref]) -> list[Step]:
    """The steps; those that take access away name the people, earlier ones included.

    `former` maps an allocation that is renamed to the name under which it is recorded.
    """
    synced = {step.ref for step in steps if step.verb == Verb.SYNC}
    refs = {ref for ref in synced if former.get(ref, ref) in context.world.recorded}
    if not refs:
        return list(steps)
    # All of one Desired before any of the other: what `access` looks up is built once for each.
    after = {
        ref: key_lines(context.desired.resources[ref], context.desired, context.now)
        for ref in refs & context.desired.resources.keys()
    }
    were = _before({former.get(ref, ref) for ref in refs}, context)
    renamed = {was: ref for ref, was in former.items()}
    pending = {
        (renamed.get(one.ref, one.ref), one.node): one.people for one in context.world.revocations
    }
    named = []
    for step in steps:
        if step.verb == Verb.SYNC and step.ref in refs:
            staying = {} if is_fenced(step.node, context) else after
            was = were[former.get(step.ref, step.ref)]
            step = replace(step, revokes=_revoked(step, was, staying, pending))
        named.append(step)
    return named


ENDING = frozenset({Action.CHANGE, Action.RENAME, Action.RESTART})
"""Actions after which an allocation stays, so that who loses access to it has to be named."""


def tell_ends(change: Change, ending: Mapping[Ref, Step], world: World) -> Change:
    """The change, saying whose access ends with it, and whether its host can be told now."""
    step = ending.get(change.ref)
    if step is None or change.action not in ENDING:
        return change
    seen = world.observations.get(step.node)
    silent = f" · {step.node} is silent: pending until it answers" if seen and seen.problem else ""
    ends = f"access of {', '.join(step.revokes)}, and sessions opened by it{silent}"
    return replace(change, facts={"ends": ends, **change.facts})


def _before(refs: Collection[Ref], context: Context) -> Mapping[Ref, Lines]:
    """The lines from which each key file was last made."""
    world = context.world
    desired = Desired(
        settings=context.desired.settings,
        digest="",
        resources={one.ref: one for one in recorded_of(world, _related(refs, world))},
    )
    found: dict[Ref, Lines] = {}
    applied = {ref: parse_moment(world.recorded[ref].applied_at) or context.now for ref in refs}
    # All of one Desired before any of the next: what `access` looks up is built once for each.
    for shut_out, those in _by_suspensions(applied, world).items():
        at_the_time = replace(desired, suspended=shut_out)
        for ref in those:
            found[ref] = key_lines(desired.resources[ref], at_the_time, applied[ref])
    return found


def _by_suspensions(
    applied: Mapping[Ref, datetime], world: World
) -> Mapping[frozenset[str], Sequence[Ref]]:
    """Allocations by the people who were shut out when they were applied.

    That changes only where a suspension begins or ends, so it is asked once between two of these.
    """
    texts = (text for one in world.suspensions for text in (one.since, one.until))
    turns = sorted({moment for text in texts if (moment := parse_moment(text))})
    known: dict[tuple[int, int], frozenset[str]] = {}
    found: dict[frozenset[str], list[Ref]] = {}
    for ref, at in applied.items():
        between = (bisect_left(turns, at), bisect_right(turns, at))
        if between not in known:
            known[between] = before(world.suspensions, at)
        found.setdefault(known[between], []).append(ref)
    return found


def _related(refs: Collection[Ref], world: World) -> set[Ref]:
    """Everything that decides who has access to these allocations."""
    users = {user for ref in refs for user in ALLOCATIONS.applied(world.recorded[ref]).access}
    grants = set()
    for grant in GRANTS.recorded(world):
        spec = GRANTS.applied(grant)
        if Ref("allocation", grant.ref.project, spec.allocation) in refs:
            grants.add(grant.ref)
            users.add(spec.user)
    projects = {Ref("project", "", ref.project) for ref in refs}
    return {*refs, *grants, *projects, *(Ref("user", "", user) for user in users)}


def _revoked(
    step: Step,
    before: Lines,
    after: Mapping[Ref, Lines],
    pending: Mapping[tuple[Ref, str], tuple[str, ...]],
) -> tuple[str, ...]:
    is_shut = isinstance(step.item, SyncItem) and step.item.absent
    staying = () if is_shut else after.get(step.ref, ())
    users = {one.user for one in staying}
    kept = {one.line for one in staying}
    lost = [one for one in before if one.line not in kept]
    named = {one.user if one.user not in users else f"{one.user}/{one.key_id}" for one in lost}
    named.update(pending.get((step.ref, step.node), ()))
    return tuple(sorted(_widest(named)))


def _widest(named: set[str]) -> Iterator[str]:
    """Somebody who lost all access is not named again for a single key."""
    return (one for one in named if "/" not in one or one.partition("/")[0] not in named)
