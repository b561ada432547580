"""Unsound documents: what still holds of resources whose documents have errors.

A document with an error gives nothing new, and whatever any reading of it takes away is taken away
(rule 9): otherwise whoever may commit anywhere could keep a key open by an error of their own. What
is left is recorded like any change, so that a later error brings nothing back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reconciler.model.plan.lifecycle import Phase
from reconciler.model.plan.plan import Action, Change
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.reading import LETS_IN, Reading, whole
from reconciler.model.state.world import Recorded, World
from reconciler.planner.core.difference import Difference
from reconciler.planner.core.effective_spec import as_recorded, in_force, less


def with_remainders(desired: Desired, world: World) -> Desired:
    """The desired state, in which what is frozen stands as recorded, less what is taken away.

    Of what nothing is left there is no resource, as if its document were gone.
    """
    desired = _without_copies(desired, world)
    if not desired.readings:
        return desired
    resources, lessened = {}, set()
    for recorded, readings in _read(desired, world):
        before = as_recorded(recorded)
        left = less(before, readings)
        if left is before:
            continue
        lessened.add(recorded.ref)
        if left is not None:
            resources[recorded.ref] = left
    if not lessened:
        return desired
    return replace(
        desired,
        resources=dict(sorted({**desired.resources, **resources}.items())),
        frozen=desired.frozen - lessened,
        lessened=frozenset(lessened),
    )


def as_judged(desired: Desired, world: World, differences: Iterable[Difference]) -> Desired:
    """What limits are read from: a policy, a project or a person in error counts as recorded.

    An error takes away no limit.
    """
    frozen = {one.ref for one in differences if one.action is Action.FROZEN}
    return in_force(desired, world, {ref for ref in frozen if ref.kind in LIMITING})


LIMITING = frozenset({"policy", "project", "user"})


def tell_errors(change: Change, desired: Desired) -> Change:
    """The change, saying why no more of its document is done."""
    if change.ref not in desired.lessened:
        return change
    told = "its document has errors: what it takes away is done, and nothing else"
    return replace(change, facts={"errors": told, **change.facts})


def _without_copies(desired: Desired, world: World) -> Desired:
    """What stands beside a file that nobody can read, and from which the same was applied.

    It may be a copy of what that file says, and less than a copy: it takes, and gives nothing.
    """
    if not desired.broken:
        return desired
    copies = {
        ref: one
        for ref, one in desired.resources.items()
        if ref.kind in LETS_IN
        and (recorded := world.recorded.get(ref)) is not None
        and recorded.file != one.file
        and desired.is_broken(recorded.file)
    }
    if not copies:
        return desired
    readings = {ref: (whole(one),) for ref, one in copies.items()}
    return replace(
        desired,
        resources={ref: one for ref, one in desired.resources.items() if ref not in copies},
        frozen=desired.frozen | copies.keys(),
        readings={**desired.readings, **readings},
    )


def _read(desired: Desired, world: World) -> Iterator[tuple[Recorded, tuple[Reading, ...]]]:
    """What is in force and has readings that count for it, with these."""
    for ref, found in desired.readings.items():
        recorded = world.recorded.get(ref)
        if recorded is None or recorded.phase is not Phase.ACTIVE or recorded.forgotten:
            continue
        count = tuple(one for one in found if not one.only_there or one.file == recorded.file)
        if count and not _stands(ref, recorded, desired):
            yield recorded, count


def _stands(ref: Ref, recorded: Recorded, desired: Desired) -> bool:
    """Whether there is a sound document; or it is gone, and that takes away more than any error."""
    return ref in desired.resources or (
        ref not in desired.frozen
        and not desired.is_broken(recorded.file)
        and recorded.file not in desired.misplaced.get(ref, ())
    )
