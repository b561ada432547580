"""Renames: which document takes over what was recorded under another name.

What a rename keeps, a place, a login, data, is what it is about: one that may not be is a removal
and something new, each by its own rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.problem import Problem
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded, World
from reconciler.planner.core.refusal import Refusal, problem_of
from reconciler.planner.storage.references import users_of_data


def find_renames(
    desired: Desired, world: World, declined: Mapping[Ref, Problem]
) -> tuple[Mapping[Ref, Ref], Mapping[Ref, Problem]]:
    """New ref → the recorded one that it takes over, and the takeovers that cannot be.

    Those that were `declined` for another reason are none.
    """
    claiming = sorted(ref for ref, one in desired.resources.items() if one.former_name)
    if not claiming:
        return {}, {}
    taken: dict[Ref, Ref] = {}
    held = {Ref("node", "", claim.node) for claim in world.claims}
    held |= {Ref("project", "", claim.project) for claim in world.claims}
    held |= users_of_data(world).keys()
    hindered: dict[Ref, Problem] = {}
    for ref in claiming:
        resource = desired.resources[ref]
        former = Ref(ref.kind, ref.project, resource.former_name)
        recorded = world.recorded.get(former)
        if recorded is None:
            continue
        if ref in declined:
            hindered[ref] = declined[ref]
            continue
        if ref in world.recorded:
            hindered.update(_collision(resource, former, desired, world))
            continue
        why = _hindrance(former, recorded, desired, held)
        if former in taken.values():
            why = "somebody else takes over that name"
        if why:
            hindered[ref] = unsound(resource, former, why)
        else:
            taken[ref] = former
    return taken, hindered


def _collision(
    resource: Resource, former: Ref, desired: Desired, world: World
) -> Mapping[Ref, Problem]:
    """Two recorded allocations, or storages with data, whose names are swapped or taken over.

    Neither becomes the other: read as changes, it would give each the other's people, or destroy
    what was to be kept.
    """
    ref = resource.ref
    own = desired.resources.get(former)
    leaves = own is None or Ref(ref.kind, ref.project, own.former_name) in world.recorded
    has_something = world.recorded[ref].id or ref in world.volumes
    if not has_something or former in desired.frozen or not leaves:
        return {}
    problem = unsound(resource, former, "both are recorded")
    return {ref: problem} if own else {ref: problem, former: replace(problem, ref=str(former))}


def unsound(resource: Resource, former: Ref, why: str) -> Problem:
    message = f"{former} cannot become {resource.ref.name}: {why}"
    hint = "take formerName out, or put the other document right"
    found = Refusal("rename_unsound", message, hint)
    return problem_of(resource, found, "metadata", "formerName")


def _hindrance(former: Ref, recorded: Recorded, desired: Desired, held: Collection[Ref]) -> str:
    if former in desired.resources or former in desired.frozen:
        return "it still has a document of its own"
    if unread := desired.unread(former):
        return f"its own document may stand in {some(unread)}, which cannot be read"
    if recorded.file in desired.misplaced.get(former, ()):
        return f"its own document stands in {recorded.file}, where it may not"
    if desired.blind:
        return "git does not say whether its own document is gone"
    if former in held:
        return "allocations hold slots, or data lies, under that name"
    return "" if recorded.phase is Phase.ACTIVE else f"it is {recorded.phase}"


def some(files: Collection[str]) -> str:
    first = ", ".join(sorted(files)[:3])
    return f"{first} or {len(files) - 3} more" if len(files) > 3 else first
