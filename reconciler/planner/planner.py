"""From Desired, World and a moment to the Plan: what, where, how, when. Pure: same input, same

bytes, and every refusal names its rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count

from reconciler.kinds.contract import Context
from reconciler.model.desired import Desired, Origin
from reconciler.model.drift import Drift
from reconciler.model.forced import NOTHING_FORCED, Forced
from reconciler.model.moment import format_moment
from reconciler.model.plan import Action, Change, Plan, Risk, Step, fingerprint
from reconciler.model.problem import HELD_CODES, Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref, parsed
from reconciler.model.world import World
from reconciler.planner.absence import stays
from reconciler.planner.admission import admit, hold
from reconciler.planner.attaching import (
    after_detaching,
    attachments_of,
    begun_by,
    refuse_joins,
)
from reconciler.planner.compatibility import refuse_runtimes
from reconciler.planner.desk import MOVING, Desk, Pending, find_pending
from reconciler.planner.diff import Difference, compare
from reconciler.planner.drift import drifts
from reconciler.planner.effective import in_force
from reconciler.planner.ending import horizon, policy_of, with_ends
from reconciler.planner.evacuating import with_evacuations
from reconciler.planner.figures import figures_of
from reconciler.planner.forgetting import Words, find_words
from reconciler.planner.granting import refuse_grants
from reconciler.planner.joining import Ledger
from reconciler.planner.leasing import ends_of_waits, refuse_leases
from reconciler.planner.lines import Line, write_lines
from reconciler.planner.moves import moved
from reconciler.planner.next_moment import next_moment
from reconciler.planner.noting import notes_of
from reconciler.planner.ordering import after_preparing, in_waves
from reconciler.planner.preparing import find_preparations
from reconciler.planner.remainder import as_judged, tell_errors, with_remainders
from reconciler.planner.rendering import Renderer
from reconciler.planner.repairing import with_repairs
from reconciler.planner.revoking import name_revoked, tell_ends
from reconciler.planner.scope import Scope
from reconciler.planner.seating import Seat, Seating, Unseated, seat_all
from reconciler.planner.situation import Said, Situation
from reconciler.planner.staging import find_stagings, is_slow
from reconciler.planner.storing import refuse_storage, with_data
from reconciler.planner.suspending import in_force as suspensions_in_force
from reconciler.planner.suspending import scopes_at
from reconciler.planner.takeovers import MOST_TURNS, claimants, objection, rivals

Origins = Callable[[Mapping[Ref, str], Collection[Ref]], Mapping[Ref, Origin]]
"""Asked for the files of documents, and which of these are gone from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """`only` limits the plan to refs; changes of a higher risk than `hold_above` are held.

    `actor` is the OS user who asks: the author of what no commit has yet. `leases_from` is the
    moment from which leases that begin are counted, `now` unless it is given. `uncommitted` are
    removals that count though no commit has made them, and `forced` allocations from which storage
    is detached even while they work in it. Nobody is asked about one that is `unattended`.
    """

    desired: Desired
    world: World
    now: datetime
    templates: Mapping[str, str]
    sign: Callable[[str], str]
    origins: Origins
    only: tuple[str, ...] = ()
    hold_above: Risk | None = None
    unattended: bool = False
    actor: str = ""
    leases_from: datetime | None = None
    uncommitted: tuple[str, ...] = ()
    forced: Forced = NOTHING_FORCED


def plan(request: PlanRequest) -> Plan:
    """Everything that would be done, and everything that would not and why.

    Raises ProblemError for a ref in `only` that is nowhere, or a template that is unsound.
    """
    shut_out = scopes_at(request.world.suspensions, request.now)
    desired = with_remainders(request.desired, request.world)
    request = replace(request, desired=replace(desired, suspended=shut_out))
    declined: Mapping[Ref, Problem] = {}
    for turn in count():
        everything = _differences(request, declined)
        made = _scoped(request, everything)
        refused = dict(_refused_renames(request, everything, made))
        if refused.keys() <= declined.keys():
            return made
        declined = {**declined, **refused}
        if turn >= MOST_TURNS:
            declined = {**rivals(declined, request.desired), **declined}
    raise AssertionError("a name is declined once")


def _refused_renames(
    request: PlanRequest, everything: tuple[Difference, ...], made: Plan
) -> Iterator[tuple[Ref, Problem]]:
    """Renames that may not be: what had the former name has gone, which `only` may well name.

    One that waits for somebody's word may be yet.
    """
    renames = {one.ref for one in everything if one.action is Action.RENAME}
    if renames and request.only:
        made = _scoped(replace(request, only=()), everything)
    for change in made.changes:
        problem = change.problem
        if change.ref in renames and problem is not None and problem.code not in HELD_CODES:
            yield change.ref, problem
    for resource, recorded in claimants(everything, request.desired):
        files = {resource.ref: resource.file, recorded.ref: recorded.file}
        origins = _origins(request, files, {recorded.ref: (recorded.commit, recorded.applied_at)})
        problem = objection(resource, recorded, _situation(request, everything, origins))
        if problem is not None:
            yield resource.ref, problem


def _scoped(request: PlanRequest, everything: tuple[Difference, ...]) -> Plan:
    scope = Scope(request.only, request.desired, request.world).widened(everything)
    if hosts := scope.hosts(everything):
        wide = _made(request, scope.widened(everything, hosts), everything)
        taken = {Ref("node", "", claim.node) for claim in wide.claims}
        scope = scope.widened(everything, taken & hosts)
    return _made(request, scope, everything)


def _made(request: PlanRequest, scope: Scope, everything: tuple[Difference, ...]) -> Plan:
    differences = scope.limit(everything)
    origins = _origins_of(request, differences)
    refused = admit(_situation(request, differences, origins))
    admitted = [difference for difference in differences if difference.ref not in refused]
    judged = as_judged(request.desired, request.world, everything)
    refused = {
        **refused,
        **refuse_leases(admitted, judged, request.world, request.now, request.leases_from),
        **refuse_grants(admitted, judged, request.world, origins, request.now),
        **refuse_storage(admitted, judged, request.world, origins),
    }
    effective = _effective(request, everything, differences, refused)
    context = _context(request, effective, origins)
    preparations = find_preparations(context, lambda ref: scope.reaches(ref, ()))
    refused = {**refused, **hold(preparations, request.hold_above)}
    ledger = Ledger(effective, request.world, _renamed(differences, refused))
    refused = {**refused, **refuse_runtimes(differences, effective, request.world, refused)}
    refused = {**refused, **refuse_joins(differences, refused, ledger)}
    seats = seat_all(
        Seating(
            desired=effective,
            specs=request.desired,
            world=request.world,
            now=request.now,
            refused=refused,
            origins=origins,
            differences=differences,
            ledger=ledger,
            preparing=(preparing := preparations.keys() - refused.keys()),
        )
    )
    refused = {**refused, **_unseated(seats)}
    desired = _effective(request, everything, differences, refused)
    context = replace(context, desired=desired, volumes=ledger.volumes)
    changed = {d.ref: d for d in differences if d.ref not in refused}
    found = drifts(desired, request.world, request.now)
    pending = with_repairs(find_pending(context, changed), found, context, changed)
    words = find_words(desired, request.world, {d.ref for d in everything} | preparations.keys())
    context = _with_origins(request, context, dict(_files(pending.values(), words)))
    desk = Desk(
        context=context,
        refused=refused,
        changed=changed,
        seats=seats,
        pending=pending,
        preparations=preparations,
        drifts=found,
        stagings=find_stagings(context, seats, changed, preparing, found),
        words=words,
    )
    lines = [line for line in write_lines(differences, desk) if _within(line, scope)]
    return _assemble(request, desk, ledger, lines)


def _differences(request: PlanRequest, declined: Mapping[Ref, Problem]) -> tuple[Difference, ...]:
    """All that is not as recorded, and what this moment and what lies on hosts make of it."""
    found = compare(request.desired, request.world, declined)
    found = with_evacuations(found, request.desired, request.world)
    judged = as_judged(request.desired, request.world, found)
    found = with_ends(found, judged, request.world, request.now)
    return with_data(found, request.world)


def _situation(
    request: PlanRequest,
    differences: tuple[Difference, ...],
    origins: Mapping[Ref, Origin],
) -> Situation:
    said = Said(
        origins=origins,
        uncommitted=frozenset(request.uncommitted),
        forced=parsed(request.forced.refs),
        now=request.now,
        unattended=request.unattended,
    )
    return Situation(request.desired, request.world, differences, request.hold_above, said)


def context_of(request: PlanRequest) -> Context:
    """What kinds may look at, as if all that git wants were in force, and nobody had written it."""
    return _context(request, request.desired, {})


def _renamed(
    differences: Iterable[Difference], refused: Mapping[Ref, Problem]
) -> Mapping[Ref, Ref]:
    return {d.former: d.ref for d in differences if d.former and d.ref not in refused}


def _unseated(seats: Mapping[Ref, Seat | Unseated]) -> Mapping[Ref, Problem]:
    return {ref: seat.problem for ref, seat in seats.items() if isinstance(seat, Unseated)}


def _origins_of(request: PlanRequest, differences: Iterable[Difference]) -> Mapping[Ref, Origin]:
    """By which commit each is, or was taken away; nobody asks that of what stays as it is."""
    asked = [d for d in differences if d.file and d.action is not Action.FROZEN]
    leaving = (d for d in asked if d.resource is None and d.ref not in request.desired.resources)
    gone = {
        d.ref: (d.recorded.commit, d.recorded.applied_at) if d.recorded else ("", "")
        for d in leaving
    }
    files = {d.ref: d.file for d in asked}
    for one in asked:
        if one.former is not None and one.recorded is not None and one.recorded.file:
            files[one.former] = one.recorded.file
            gone[one.former] = (one.recorded.commit, one.recorded.applied_at)
    return _origins(request, files, gone)


def _origins(
    request: PlanRequest, files: Mapping[Ref, str], gone: Collection[Ref]
) -> Mapping[Ref, Origin]:
    """What no commit has is by who asks now, as far as anybody can tell."""
    nobody = Origin(author=request.actor)
    found = request.origins(files, gone) if files else {}
    return {ref: one if one.commit or one.doubt else nobody for ref, one in found.items()}


def _effective(
    request: PlanRequest,
    everything: Sequence[Difference],
    differences: Sequence[Difference],
    refused: Mapping[Ref, Problem],
) -> Desired:
    """What will be in force: all that is not asked for or refused stays as it was recorded.

    But a person whom git no longer names opens nothing, though others who name him keep him on
    the books: revocation waits for nobody's document (rule 9). Unless the absence itself is in
    question: then whoever was let in stays so.
    """
    whole = {d.ref for d in differences if d.ref in refused and stays(d, refused[d.ref])}
    done = {
        d.ref for d in differences if d.ref not in refused or (_is_gone(d) and d.ref not in whole)
    }
    undone = {ref for d in everything if d.ref not in done for ref in (d.ref, d.former) if ref}
    return in_force(request.desired, request.world, undone, refused.keys() - whole)


def _is_gone(difference: Difference) -> bool:
    return difference.ref.kind == "user" and difference.action is Action.FORGET


def _context(request: PlanRequest, desired: Desired, origins: Mapping[Ref, Origin]) -> Context:
    renderer = Renderer(request.templates)
    return Context(
        desired=desired,
        world=request.world,
        now=request.now,
        render=renderer.render,
        sign=request.sign,
        origins=origins,
        template_digests=renderer.digests(),
        leases_from=request.leases_from,
        forced=parsed(request.forced.refs),
        volumes=request.world.volumes,
    )


def _files(pending: Iterable[Pending], words: Iterable[Words]) -> Iterator[tuple[Ref, str]]:
    """Of what has work, though nothing about itself is another."""
    yield from ((one.resource.ref, one.resource.file) for one in pending)
    yield from ((one.difference.ref, one.difference.file) for one in words)


def _with_origins(request: PlanRequest, context: Context, files: Mapping[Ref, str]) -> Context:
    """The same, knowing also who wrote what stands in these files."""
    unknown = {ref: file for ref, file in files.items() if file and ref not in context.origins}
    if not unknown:
        return context
    return replace(context, origins={**context.origins, **_origins(request, unknown, ())})


def _within(line: Line, scope: Scope) -> bool:
    return scope.reaches(line.change.ref, (*line.change.caused_by, line.change.former))


def _assemble(request: PlanRequest, desk: Desk, ledger: Ledger, found: Sequence[Line]) -> Plan:
    lines = [line for line in found if not line.confirms]
    confirmed = [line.change for line in found if line.confirms]
    former = {c.ref: c.former for c in (line.change for line in lines) if c.former is not None}
    steps = name_revoked([step for line in lines for step in line.steps], desk.context, former)
    ending = {step.ref: step for step in steps if step.revokes}
    told = (
        tell_errors(tell_ends(line.change, ending, request.world), request.desired)
        for line in lines
    )
    changes = tuple(sorted(told, key=_rank))
    told_of = {change.ref for change in changes}
    places = {} if request.only else dict(moved(request.desired, request.world, told_of))
    claims = tuple(sorted((c for line in lines for c in line.claims), key=lambda c: c.id))
    desired, world = desk.context.desired, request.world
    figures = figures_of(desired, world, request.now, changes, claims)
    touched = sum(change.ref in request.desired.resources for change in changes)
    turned = {c.ref for c in changes if c.action in (Action.RELEASE, Action.RESTORE)}
    ahead = horizon(world, policy_of(desired, world).lease, request.now)
    attachments = attachments_of(steps, world)
    made = Plan(
        revision=request.desired.revision,
        desired_digest=request.desired.digest,
        state_id=world.state_id,
        serial=world.serial,
        made_at=format_moment(request.now),
        changes=changes,
        confirmed=tuple(sorted(confirmed, key=_rank)),
        moved=places,
        claims=claims,
        volumes=begun_by(attachments, ledger),
        attachments=attachments,
        waves=in_waves(steps, _after(lines, steps), last=is_slow),
        waiting=tuple(desk.positions),
        problems=request.desired.problems,
        notes=tuple(notes_of(*_untold(desk.drifts, changes))),
        figures=replace(figures, unchanged=len(request.desired.resources) - touched),
        ends=tuple(end for end in ahead.ends if end.ref not in turned),
        suspended=tuple(suspensions_in_force(world.suspensions, request.now)),
        only=request.only,
        uncommitted=request.uncommitted,
        forced=request.forced,
        next_moment=next_moment(
            desired,
            world,
            request.now,
            (*ahead.moments, *ends_of_waits(request.desired, world)),
        ),
        written_by=world.written_by,
    )
    return replace(made, fingerprint=fingerprint(made))


def _untold(
    found: Iterable[Drift], changes: Iterable[Change]
) -> tuple[Iterable[Drift], Collection[Ref]]:
    """What is left to tell of, and the refs of which the plan puts right what it can.

    Of what leaves nothing is told beside its line.
    """
    active = {change.ref: change for change in changes if change.problem is None}
    leaving = {ref for ref, change in active.items() if change.action in MOVING}
    return (one for one in found if one.ref not in leaving), active.keys()


def _after(lines: Sequence[Line], steps: Sequence[Step]) -> Mapping[str, frozenset[str]]:
    """What each step waits for: for its line's sake, and for its host's."""
    waits = dict(after_preparing(steps))
    for after in (after_detaching(steps), *(line.after for line in lines)):
        for step, needed in after.items():
            waits[step] = waits.get(step, frozenset()) | needed
    return waits


def _rank(change: Change) -> tuple[int, Ref]:
    return (ACTIONS.index(change.action), change.ref)


ACTIONS = tuple(Action)
