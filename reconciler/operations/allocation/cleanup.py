"""Cleanup: slots that could not be proved clean are tried again, or overridden.

To try again needs no new consent: it was given when the release began. To vouch takes an operator,
who is shown what was not proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace

from reconciler.kinds.node.spec import NODES, AdminState
from reconciler.model.host.capacity import Claim, ClaimState
from reconciler.model.host.evidence import Check, CheckResult
from reconciler.model.plan.plan import Action, Plan
from reconciler.model.plan.work import HostProgress
from reconciler.model.problem import Problem, refuse
from reconciler.model.records import dataclass
from reconciler.model.state.world import World
from reconciler.operations.allocation.proof import CleanupPlace, insist_on_place
from reconciler.operations.apply.application import Applied, ApplyOptions
from reconciler.operations.apply.apply import apply
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.journal import writing
from reconciler.operations.person import insist_on_reason, operator
from reconciler.operations.published.publish import publish
from reconciler.operations.signals import Interrupts
from reconciler.operations.specs import read_desired
from reconciler.store.file.database import Database
from reconciler.store.override import free_unproved
from reconciler.store.snapshot import read_world
from reconciler.store.tables.tenancies import tenancies


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproved:
    """A blocked slot or node, whose leftovers are there, and every check that did not pass."""

    place: str
    ref: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """What is free now and what stays blocked; `problems` say why, and what else went wrong."""

    place: str
    run: str
    freed: tuple[str, ...]
    left: tuple[Unproved, ...]
    problems: tuple[Problem, ...] = ()
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched:
    """What was freed by an override, and everything that was not proved of it.

    `problems` are those of what is published.
    """

    place: str
    actor: str
    reason: str
    freed: tuple[Unproved, ...]
    problems: tuple[Problem, ...] = field(default=())


def retry(
    fleet: Fleet,
    place: CleanupPlace,
    on_progress: Callable[[HostProgress], None],
    interrupts: Interrupts,
) -> Retried:
    """Do what an apply would about what is blocked there, and nothing else.

    Raises ProblemError `nothing_blocked`, or `plan_stale` where git wants more of it by now.
    """
    with without_collector(), fleet.reading() as database:
        before = _blocked(read_world(database), place)
    refs = tuple(sorted({str(claim.ref) for claim in before}))
    options = ApplyOptions(only=refs)
    done = apply(fleet, options, _ends_only(refs), on_progress, interrupts)
    with without_collector(), fleet.reading() as database:
        live = {claim.id: claim for claim in read_world(database).claims}
        left = tuple(_unproved(database, [live[c.id] for c in before if c.id in live]))
    return Retried(
        place=str(place),
        run=done.run,
        freed=tuple(_told(claim) for claim in before if claim.id not in live),
        left=left,
        problems=tuple(_problems(done, left)),
        interrupted=done.interrupted,
    )


def override(
    fleet: Fleet, place: CleanupPlace, reason: str, ask: Callable[[tuple[Unproved, ...]], bool]
) -> Vouched:
    """Free what is blocked there by the word of the operator who acts; no host is touched.

    `ask` is shown what was not proved. Raises ProblemError `usage` without a reason,
    `person_unknown` or `operator_only`, `nothing_blocked`, `declined`, and `override_refused` for a
    node that is attested to be lost: nobody can vouch for what nobody can look at.
    """
    insist_on_reason(reason)
    by = operator(fleet, read_desired(fleet), "vouches for a place")
    with without_collector(), fleet.reading() as database:
        shown = _vouchable(read_world(database), place)
        unproved = tuple(_unproved(database, shown))
    if not ask(unproved):
        raise refuse("declined", "nothing was freed", "run it again and answer yes")
    speaking = replace(fleet, actor=replace(fleet.actor, user=by))
    with writing(speaking, "cleanup override") as journal:
        if _vouchable(journal.world(), place) != shown:
            message = f"what is blocked on {place} is no longer what was shown"
            raise refuse("plan_stale", message, f"look again: gpuaas proof show {place}")
        journal.enter("override", free_unproved, shown, reason)
        problems = publish(fleet, journal.world())
    return Vouched(place=str(place), actor=by, reason=reason, freed=unproved, problems=problems)


def _blocked(world: World, place: CleanupPlace) -> tuple[Claim, ...]:
    insist_on_place(world, place)
    there = [claim for claim in world.claims if place.holds(claim)]
    blocked = tuple(claim for claim in there if claim.state is ClaimState.CLEANUP_BLOCKED)
    if not blocked:
        states = ", ".join(sorted({f"{claim.ref} is {claim.state}" for claim in there}))
        message = f"no cleanup is blocked on {place}: {states or 'nobody has it'}"
        begun = any(claim.state is ClaimState.RELEASING for claim in there)
        hint = (
            "a release that was cut short goes on with: gpuaas apply" if begun else "gpuaas slots"
        )
        raise refuse("nothing_blocked", message, hint)
    return blocked


def _vouchable(world: World, place: CleanupPlace) -> tuple[Claim, ...]:
    claims = _blocked(world, place)
    if _is_lost(world, place.node):
        message = f"{place.node} is lost: nobody can look at what he would vouch for"
        hint = "when it answers again, put its admin.state back"
        raise refuse("override_refused", message, hint)
    return claims


def _told(claim: Claim) -> str:
    return f"{claim.node}/{claim.slot or '*'}"


def _unproved(database: Database, claims: Sequence[Claim]) -> Iterator[Unproved]:
    """By the last proof that was tried of each claim."""
    for claim in claims:
        had = tenancies(database, claim.node, claim.slot or "")
        tried = next((one.tried for one in had if one.claim == claim.id), ())
        checks = tried[-1].checks if tried else ()
        yield Unproved(
            place=_told(claim),
            ref=str(claim.ref),
            checks=tuple(check for check in checks if check.result is not CheckResult.PASS),
        )


def _problems(done: Applied, left: Sequence[Unproved]) -> Iterator[Problem]:
    """What stays blocked without having been tried is a failure, too, and says why."""
    yield from done.problems
    if left and not done.plan.active:
        refused = [change.problem for change in done.plan.changes if change.problem]
        why = refused[0].message if refused else "the specs cannot all be read"
        yield Problem(
            code="cleanup_blocked",
            message=f"{', '.join(one.place for one in left)} stays blocked: not tried, {why}",
            hint=refused[0].hint if refused else "gpuaas validate",
            ref=left[0].ref,
        )


def _is_lost(world: World, name: str) -> bool:
    node = NODES.last(world, name)
    return node is not None and node.admin.state is AdminState.LOST


def _ends_only(refs: tuple[str, ...]) -> Callable[[Plan], bool]:
    """The consent that was given when these releases began covers no more than their end."""

    def agree(plan: Plan) -> bool:
        for change in plan.active:
            over = change.action is Action.RELEASE
            left = change.action is Action.REPLACE and not change.fields
            if str(change.ref) not in refs or not (over or left):
                told = f"{change.ref} is to {change.action}, which is more than a cleanup"
                raise refuse("plan_stale", told, "look at it first: gpuaas plan; then gpuaas apply")
        return True

    return agree
