"""From Desired, World and a moment to the Plan: what, where, how, when. Pure: same input, same

bytes, and every refusal names its rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from reconciler.kinds.contract import Context
from reconciler.model.plan.plan import Action, Plan
from reconciler.model.problem import HELD_CODES, Problem
from reconciler.model.ref import Ref, parsed
from reconciler.model.spec.desired import Desired, Origin
from reconciler.planner.access.grants import refuse_grants
from reconciler.planner.access.suspensions import loop_suspensions, scopes_at
from reconciler.planner.admission import admit, hold
from reconciler.planner.assemble import assemble
from reconciler.planner.automation.tickets import find_tickets
from reconciler.planner.bundles.compatibility import refuse_runtimes
from reconciler.planner.bundles.install import find_stagings
from reconciler.planner.changes.build import Line, write_lines
from reconciler.planner.changes.change_set import Desk
from reconciler.planner.changes.held_work import Work, held_lines, hold_work
from reconciler.planner.changes.pending import find_pending
from reconciler.planner.changes.repair import with_repairs
from reconciler.planner.changes.scope import Scope
from reconciler.planner.context import Said, Situation
from reconciler.planner.diff.name_changes import MOST_TURNS, claimants, objection, rivals
from reconciler.planner.diff.removals import stays
from reconciler.planner.diff.resources import compare
from reconciler.planner.diff.unsound import as_judged, with_remainders
from reconciler.planner.difference import Difference
from reconciler.planner.drift.detect import drifts
from reconciler.planner.effective_spec import in_force
from reconciler.planner.lifecycle.evacuation import with_evacuations
from reconciler.planner.lifecycle.expiry import with_ends
from reconciler.planner.lifecycle.lease import refuse_leases
from reconciler.planner.lifecycle.templates import Renderer
from reconciler.planner.nodes.prepare import find_preparations
from reconciler.planner.placement.assign import Seating, seat_all
from reconciler.planner.request import PlanRequest
from reconciler.planner.seat import Seat, Unseated
from reconciler.planner.storage.attachment_rules import (
    refuse_joins,
)
from reconciler.planner.storage.attachments import Ledger
from reconciler.planner.storage.reclaim import refuse_storage, with_data
from reconciler.planner.storage.stale_records import find_words


def plan(request: PlanRequest) -> Plan:
    """Everything that would be done, and everything that would not and why.

    Raises ProblemError for a ref in `only` that is nowhere, or a template that is unsound.
    """
    shut_out = scopes_at(request.world.suspensions, request.now)
    if request.unattended:
        left = loop_suspensions(request.world.suspensions, request.now).values()
        shut_out |= {one.scope for one in left}
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
    situation = _situation(request, differences, origins)
    refused = admit(situation)
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
    refused = {**refused, **hold(preparations, situation)}
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
    work = Work(
        pending=with_repairs(find_pending(context, changed), found, context, changed),
        stagings=find_stagings(context, seats, changed, preparing, found),
        words=find_words(desired, request.world, {d.ref for d in everything} | preparations.keys()),
    )
    work = hold_work(work, situation)
    context = _with_origins(request, context, dict(_files(work)))
    desk = Desk(
        context=context,
        refused=refused,
        changed=changed,
        seats=seats,
        pending=work.pending,
        preparations=preparations,
        drifts=found,
        stagings=work.stagings,
        words=work.words,
        tickets=find_tickets(situation, preparations, refused),
    )
    lines = [*write_lines(differences, desk), *held_lines(work, desk)]
    return assemble(request, desk, ledger, [line for line in lines if _within(line, scope)])


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


def _files(work: Work) -> Iterator[tuple[Ref, str]]:
    """Of what has work, though nothing about itself is another."""
    yield from ((one.resource.ref, one.resource.file) for one in work.pending.values())
    yield from ((one.difference.ref, one.difference.file) for one in work.words)
    yield from ((difference.ref, difference.file) for difference, _, _ in work.held)


def _with_origins(request: PlanRequest, context: Context, files: Mapping[Ref, str]) -> Context:
    """The same, knowing also who wrote what stands in these files."""
    unknown = {ref: file for ref, file in files.items() if file and ref not in context.origins}
    if not unknown:
        return context
    return replace(context, origins={**context.origins, **_origins(request, unknown, ())})


def _within(line: Line, scope: Scope) -> bool:
    return scope.reaches(line.change.ref, (*line.change.caused_by, line.change.former))
