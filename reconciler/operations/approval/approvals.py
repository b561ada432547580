"""`approvals` and `approve`: held changes, and the approval of exactly one of them.

What is held is asked of a plan that is made now, as nobody is asked about it. Leave is for a
change as it is then: edited since, it is another one, and is held again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial

from reconciler.kinds.node.spec import NODES, AdminState
from reconciler.model.moment import format_moment
from reconciler.model.plan.approval import Consent, fingerprint_of_all, short_id
from reconciler.model.plan.plan import Action, Change, Plan
from reconciler.model.problem import HELD_CODES, Problem, ProblemError, refuse
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet
from reconciler.operations.journal import writing
from reconciler.operations.options import PlanOptions
from reconciler.operations.person import insist_on_reason, person
from reconciler.operations.plan.plan import make_plan, plan_from
from reconciler.operations.reconcile.holds import keep_plan
from reconciler.operations.reconcile.source.source import as_followed, is_as_followed
from reconciler.operations.specs import read_desired, read_origins
from reconciler.planner.approval import live
from reconciler.planner.core.authorship import NOBODY, authors
from reconciler.planner.core.policy import policy_of
from reconciler.specs.edits import read_edits
from reconciler.specs.git import git
from reconciler.specs.read.suggest import nearest
from reconciler.store.tables import consents
from reconciler.store.tables.consents import read_all

UNATTENDED = PlanOptions(unattended=True)
TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldChange:
    """A held change: `why` it is held, and in the `hint` what it waits for besides approval.

    `id` is empty where approval is not what it waits for.
    """

    id: str
    ref: str
    action: str
    risk: str
    code: str
    why: str
    hint: str
    author: str
    commit: str
    file: str
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSet:
    """All changes that are held for the same reason, and the ID that stands for exactly these."""

    id: str
    code: str
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """The held changes; `given` are the approvals of the last month, used and expired ones
    included.

    `problems` are those of the plan.
    """

    held: tuple[HeldChange, ...] = ()
    sets: tuple[HeldSet, ...] = ()
    given: tuple[Consent, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """What somebody approves, why, and for how long; None: as long as the Policy says."""

    ids: tuple[str, ...]
    reason: str
    lasts: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedChanges:
    changes: tuple[HeldChange, ...]
    actor: str
    reason: str
    until: str


def list_approvals(fleet: Fleet) -> Approvals:
    """The held changes of what the loop reads, where one has ever run."""
    for _ in range(TRIES):
        read, commit = as_followed(fleet)
        plan = make_plan(read, UNATTENDED)
        if is_as_followed(read, commit):
            break
    keep_plan(fleet, plan.changes, plan.problems)
    with fleet.reading() as database:
        given = read_all(database.connection)
    return Approvals(
        held=tuple(_held(plan)), sets=tuple(_sets(plan)), given=given, problems=plan.problems
    )


def approve(fleet: Fleet, word: ApprovalRequest) -> ApprovedChanges:
    """Record an approval; the next plan carries it out.

    Raises ProblemError `not_found`, `second_person_required`, `person_unknown` or `usage`, and then
    nothing was written.
    """
    insist_on_reason(word.reason)
    read, commit = as_followed(fleet)
    with writing(read, "approve") as journal:
        desired, world = read_desired(read), journal.world()
        plan = plan_from(read, desired, world, UNATTENDED)
        if not is_as_followed(read, commit):
            raise refuse(
                "changed_meanwhile",
                "the loop has gone on to another commit meanwhile",
                "look at what is held now: gpuaas approvals",
            )
        lasts = _insist_on_end(word, desired, world)
        changes = _named(word.ids, plan, world, fleet)
        _insist_on_second_person(read, changes, desired, world)
        until = format_moment(fleet.now() + lasts)
        journal.enter(
            "approve",
            consents.give,
            [
                Consent(
                    id=short_id(one.fingerprint),
                    ref=one.ref,
                    action=one.action.value,
                    fingerprint=one.fingerprint,
                    actor=fleet.actor.name,
                    reason=word.reason,
                    at=format_moment(fleet.now()),
                    expires_at=until,
                )
                for one in changes
            ],
        )
    return ApprovedChanges(
        changes=tuple(map(_told, changes)),
        actor=fleet.actor.name,
        reason=word.reason,
        until=until,
    )


def _held(plan: Plan) -> Iterator[HeldChange]:
    for one in plan.changes:
        if one.problem is not None and one.problem.code in HELD_CODES:
            yield _told(one)


def _told(one: Change) -> HeldChange:
    return HeldChange(
        id=short_id(one.fingerprint) if one.fingerprint else "",
        ref=str(one.ref),
        action=one.action.value,
        risk=one.risk.value,
        code=one.problem.code if one.problem else "",
        why=one.problem.message if one.problem else "",
        hint=one.problem.hint if one.problem else "",
        author=one.origin.author,
        commit=one.origin.commit,
        file=one.file,
        fingerprint=one.fingerprint,
    )


def _sets(plan: Plan) -> Iterator[HeldSet]:
    for code, changes in _by_code(plan).items():
        if len(changes) > 1:
            yield HeldSet(
                id=_id_of_all(changes), code=code, refs=tuple(str(one.ref) for one in changes)
            )


def _by_code(plan: Plan) -> Mapping[str, Sequence[Change]]:
    found: dict[str, list[Change]] = defaultdict(list)
    for one in plan.changes:
        if one.problem is not None and one.fingerprint:
            found[one.problem.code].append(one)
    return found


def _id_of_all(changes: Iterable[Change]) -> str:
    return short_id(fingerprint_of_all(one.fingerprint for one in changes))


def _named(ids: Sequence[str], plan: Plan, world: World, fleet: Fleet) -> tuple[Change, ...]:
    """What is held by these IDs now, each change once."""
    groups = _by_code(plan).values()
    known: dict[str, Sequence[Change]] = {
        short_id(one.fingerprint): (one,) for changes in groups for one in changes
    }
    known.update({_id_of_all(changes): changes for changes in groups if len(changes) > 1})
    given = {one for prints in live(world.consents, fleet.now()).values() for one in prints}
    approved = {short_id(one) for one in given}
    found: dict[Ref, Change] = {}
    for id in ids:
        if id in known:
            found.update({one.ref: one for one in known[id]})
        elif id in approved:
            message = f"{id} is approved already"
            raise refuse("not_found", message, "the next plan does it: gpuaas approvals")
        else:
            close = nearest(id, known)
            near = f"did you mean `{close}`?" if close else ""
            anew = "what is held may have changed since, and is told anew by: gpuaas approvals"
            raise refuse("not_found", f"nothing is held as {id}", f"{near} {anew}".strip())
    return tuple(found[ref] for ref in sorted(found))


def _insist_on_end(word: ApprovalRequest, desired: Desired, world: World) -> timedelta:
    longest = timedelta(hours=policy_of(desired, world).approval.expires_hours)
    if word.lasts is not None and word.lasts > longest:
        hours = int(longest.total_seconds()) // 3600
        raise refuse(
            "usage",
            f"leave lasts {hours} h at most, by approval.expiresHours of the Policy",
            f"give it for less: --for {hours}h",
        )
    return word.lasts or longest


def _insist_on_second_person(
    fleet: Fleet, changes: Sequence[Change], desired: Desired, world: World
) -> None:
    """Where the Policy wants two people, nobody approves their own change."""
    risks = policy_of(desired, world).approval.second_person_for
    risky = [one for one in changes if one.risk.value in risks]
    if not risky:
        return
    me = person(fleet, desired, "approves this")
    evacuated = dict(_evacuated(fleet, risky, desired, world))
    for one in risky:
        origin = evacuated.get(one.ref, one.origin)
        names = authors(desired, world, origin)
        if origin.doubt or not origin.commit or not names:
            who = origin.author or "nobody"
            raise refuse(
                "second_person_required",
                f"{one.ref} {one.risk}, and by git it is by {who}, who is nobody in the specs",
                "name that address in emails of a User; or look at it, and apply it: gpuaas apply",
            )
        if me in names or me in _hands_in(fleet, one, desired, world):
            raise refuse(
                "second_person_required",
                f"{one.ref} {one.risk}, and {me} wrote that: somebody else is to want it as well",
                "ask one of the others; approval.secondPersonFor of the Policy says what for",
            )


def _hands_in(fleet: Fleet, one: Change, desired: Desired, world: World) -> frozenset[str]:
    """Who has changed its file since that was as it was applied: whoever came to it last is not
    all who wrote it. Where the commit that was applied is not known to git, nobody can say.
    """
    recorded = world.recorded.get(one.ref)
    if recorded is None or not recorded.commit:
        return NOBODY
    files = sorted({one.file, recorded.file} - {""})
    try:
        edits = read_edits(partial(git.ask, fleet.specs), recorded.commit, files)
    except ProblemError:
        return NOBODY
    return NOBODY.union(*(authors(desired, world, edit) for edit in edits))


def _evacuated(
    fleet: Fleet, changes: Sequence[Change], desired: Desired, world: World
) -> Iterator[tuple[Ref, Origin]]:
    """The person behind each evacuation: no document of the allocation itself names them."""
    nodes: dict[Ref, Ref] = {}
    for one in changes:
        recorded = world.recorded.get(one.ref)
        node = NODES.get(desired, recorded.node) if recorded else None
        if one.action is not Action.REPLACE or node is None:
            continue
        if node.spec.admin.state is AdminState.EVACUATING:
            nodes[one.ref] = node.ref
    files = {ref: desired.resources[ref].file for ref in nodes.values()}
    origins = read_origins(fleet, files) if files else {}
    yield from ((ref, origins.get(node, Origin())) for ref, node in nodes.items())
