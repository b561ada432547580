"""WHAT: how desired differs from recorded, one difference for each ref. It decides no placement.

Whatever could not be read is frozen: its last recorded form stays, and nothing is taken for gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from reconciler.kinds.registry import KINDS
from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, FieldChange
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.reading import LETS_IN
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded, World
from reconciler.planner.core.difference import BROKEN, UNREAD, Difference
from reconciler.planner.core.effective_spec import as_recorded
from reconciler.planner.core.refusal import Refusal, problem_of
from reconciler.planner.diff.fields import compare_fields
from reconciler.planner.diff.renames import find_renames, some
from reconciler.planner.identity.claims import can_resume, groups_of

WORD_ACTIONS: Mapping[str, Action] = {"replace": Action.REPLACE, "restart": Action.RESTART}
"""Change words that are more than a change."""

NONE_DECLINED: Mapping[Ref, Problem] = MappingProxyType({})


def compare(
    desired: Desired, world: World, declined: Mapping[Ref, Problem] = NONE_DECLINED
) -> tuple[Difference, ...]:
    """Everything that is not as recorded, in order of its ref.

    `declined` are renames that may not be, and why: what had the former name has gone.
    """
    renames, unsound = find_renames(desired, world, declined)
    gone = frozenset(renames.values())
    return tuple(
        sorted(
            (
                *_present(desired, world, renames, unsound),
                *_absent(desired, world, gone, unsound),
                *_unrecorded(desired, world),
                *_unfinished(desired, world),
            ),
            key=lambda difference: difference.ref,
        )
    )


def _present(
    desired: Desired, world: World, renames: Mapping[Ref, Ref], unsound: Mapping[Ref, Problem]
) -> Iterator[Difference]:
    """Differences of what git wants."""
    recorded_by_ref, active = world.recorded, Phase.ACTIVE
    stuck = _stuck(desired, world)
    for ref, resource in desired.resources.items():
        recorded = recorded_by_ref.get(ref)
        if ref in stuck:
            yield Difference(ref=ref, action=Action.RELEASE)
        elif recorded is None:
            yield _new(resource, world, renames.get(ref), unsound.get(ref))
        elif (
            recorded.digest != resource.digest or recorded.phase is not active or recorded.forgotten
        ):
            yield _changed(resource, recorded, unsound.get(ref))
        else:
            recorded.take_spec(resource.spec)


def _stuck(desired: Desired, world: World) -> frozenset[Ref]:
    """What was begun, never recorded, and is not what git wants now: it goes before that comes.

    As long as its node or what it needs is not known, nobody can say so.
    """
    begun = groups_of(claim for claim in world.claims if claim.ref not in world.recorded)
    stuck = set()
    for ref, tries in begun.items():
        resource = desired.resources.get(ref)
        need = KINDS[ref.kind].needs(resource, desired) if resource else None
        nodes = [_node(desired, world, claims[0].node) for claims in tries.values()]
        if need is not None and not any(
            node is None or can_resume(claims, need, node)
            for claims, node in zip(tries.values(), nodes, strict=True)
        ):
            stuck.add(ref)
    return frozenset(stuck)


def _node(desired: Desired, world: World, name: str) -> Resource | None:
    ref = Ref("node", "", name)
    recorded = world.recorded.get(ref)
    return desired.resources.get(ref) or (as_recorded(recorded) if recorded else None)


def _new(
    resource: Resource, world: World, former: Ref | None, problem: Problem | None
) -> Difference:
    if former is None:
        return Difference(
            ref=resource.ref, action=Action.CREATE, resource=resource, problem=problem
        )
    recorded = world.recorded[former]
    return Difference(
        ref=resource.ref,
        action=Action.RENAME,
        resource=resource,
        recorded=recorded,
        fields=_fields(resource, recorded),
        former=former,
    )


def _changed(resource: Resource, recorded: Recorded, problem: Problem | None) -> Difference:
    if recorded.phase in (Phase.RELEASING, Phase.RELEASED):
        # A release that has begun is finished first: by now nobody can say what is left of it.
        return Difference(ref=resource.ref, action=Action.RELEASE, recorded=recorded)
    fields = _fields(resource, recorded)
    if recorded.forgotten:
        return _adopted(resource, recorded, fields, problem)
    actions = {WORD_ACTIONS.get(field.rule, Action.CHANGE) for field in fields}
    strongest = (Action.REPLACE, Action.RESTART)
    action = next((action for action in strongest if action in actions), Action.CHANGE)
    if recorded.phase is not Phase.ACTIVE and action is not Action.REPLACE:
        action = Action.CREATE
    return Difference(
        ref=resource.ref,
        action=action,
        resource=resource,
        recorded=recorded,
        fields=fields,
        problem=problem,
    )


def _adopted(
    resource: Resource,
    recorded: Recorded,
    fields: tuple[FieldChange, ...],
    problem: Problem | None,
) -> Difference:
    """A forgotten allocation is taken back as it is; what it is to become comes after that."""
    more = [field.path for field in fields if field.rule in WORD_ACTIONS]
    if more and problem is None:
        message = f"what was let go of cannot be taken back with another {', '.join(more)}"
        hint = "name it as it was, apply that, and then change the rest"
        problem = problem_of(resource, Refusal("adopt_unsound", message, hint))
    return Difference(
        ref=resource.ref,
        action=Action.ADOPT,
        resource=resource,
        recorded=recorded,
        fields=fields,
        problem=problem,
    )


def _fields(resource: Resource, recorded: Recorded) -> tuple[FieldChange, ...]:
    rules = KINDS[resource.ref.kind].FIELD_RULES
    return compare_fields(recorded.normal, resource.normal, rules)


LET_IN = frozenset({"user", "grant"})
"""Kinds whose absence shuts somebody out: that waits for no file (rule 9) and destroys nothing."""


def _absent(
    desired: Desired, world: World, renamed: frozenset[Ref], unsound: Mapping[Ref, Problem]
) -> Iterator[Difference]:
    """Differences of what is recorded and git no longer names, or not legibly."""
    holders = {claim.ref for claim in world.claims}
    everything = any(problem.code == "spec_root_empty" for problem in desired.problems)
    for ref, recorded in world.recorded.items():
        if ref in desired.resources or ref in renamed or recorded.forgotten:
            continue
        action = Action.RELEASE if recorded.id or ref in holders else Action.FORGET
        begun = recorded.phase is Phase.RELEASING
        problem = None if begun else _out_of_sight(desired, recorded, everything)
        if problem is not None:
            yield Difference(ref=ref, action=Action.FROZEN, recorded=recorded, problem=problem)
        else:
            yield Difference(ref=ref, action=action, recorded=recorded, problem=unsound.get(ref))


def _out_of_sight(desired: Desired, recorded: Recorded, everything: bool) -> Problem | None:
    """Why nobody can say that it is gone, if so: nothing of it changes then."""
    ref, absence = str(recorded.ref), desired.absent.get(recorded.ref)
    if desired.blind:
        what = "git does not say whether a commit has it"
        return _left("no_commit", what, "make `git status` work in this folder", ref)
    if absence is not None and absence.hidden:
        what = f"git keeps {absence.file} out of the folder ({absence.hidden})"
        return _left("specs_hidden", what, "bring the file back into the folder", ref)
    if why := _illegible(desired, recorded, everything):
        hint = "put the file in order; until then nothing of it changes"
        if recorded.ref.kind not in LETS_IN:
            return _left(BROKEN, why, hint, ref)
        hint = f"{hint}, and whom it lets in stays let in: gpuaas suspend shuts out at once"
        return _left(UNREAD if _takes_unread(desired, recorded) else BROKEN, why, hint, ref)
    return None


def _left(code: str, why: str, hint: str, ref: str) -> Problem:
    return Problem(code=code, message=f"left as it is: {why}", hint=hint, ref=ref)


def _illegible(desired: Desired, recorded: Recorded, everything: bool) -> str:
    ref, file = recorded.ref, recorded.file
    if everything:
        return "the spec root is empty"
    if ref in desired.frozen and not _is_taken_away(desired, recorded):
        return f"its document has errors ({file})" if file else "its document has errors"
    if desired.is_broken(file):
        return f"{file} cannot be read"
    if file in desired.misplaced.get(ref, ()):
        return f"its document may not stand in {file}"
    if ref.kind not in LET_IN and (unread := desired.unread(ref)):
        # Wherever its document stood, it may have moved into a file that nobody can read.
        return f"its document may stand in {some(unread)}, which cannot be read"
    return ""


def _takes_unread(desired: Desired, recorded: Recorded) -> bool:
    """Whether its document may take access away, and nobody can read it.

    For an allocation that is told with everything else of it that does not change.
    """
    readings = desired.readings.get(recorded.ref, ())
    whole = bool(readings) and all(one.whole for one in readings)
    return recorded.ref.kind != "allocation" and not whole


def _is_taken_away(desired: Desired, recorded: Recorded) -> bool:
    """Whether whoever it lets in is gone from its file, and stated elsewhere with errors alone."""
    ref, file = recorded.ref, recorded.file
    if ref.kind not in LET_IN or not file or desired.is_broken(file):
        return False
    return all(one.file != file for one in desired.readings.get(ref, ()))


def _unrecorded(desired: Desired, world: World) -> Iterator[Difference]:
    """Claims of something that was never recorded and that git does not want (any more).

    Its file is not known, so it may stand in any file that cannot be read and by the rules may
    hold it: then it stays.
    """
    if desired.blind or any(p.code == "spec_root_empty" for p in desired.problems):
        return
    for ref in sorted({claim.ref for claim in world.claims}):
        if not (ref in world.recorded or desired.names(ref) or desired.unread(ref)):
            yield Difference(ref=ref, action=Action.RELEASE)


def _unfinished(desired: Desired, world: World) -> Iterator[Difference]:
    """Replaces whose former allocation still holds claims, and nothing else to do about them."""
    left = {
        claim.ref
        for claim in world.claims
        if (recorded := world.recorded.get(claim.ref)) and recorded.id != claim.allocation_id
    }
    for ref in sorted(left):
        resource, recorded = desired.resources.get(ref), world.recorded[ref]
        if resource and recorded.phase is Phase.ACTIVE and recorded.digest == resource.digest:
            yield Difference(ref=ref, action=Action.REPLACE, resource=resource, recorded=recorded)
