"""What will be in force once a plan is applied, as far as desired and recorded say.

Whatever this plan does not carry out (frozen, blocked, held, not asked for) counts as it was last
recorded: its keys stay, its node stays, and nothing of its new form is used by others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from reconciler.kinds.registry import KINDS
from reconciler.model.desired import Desired
from reconciler.model.ref import Ref
from reconciler.model.resource import Resource
from reconciler.model.world import Recorded, World


def as_recorded(recorded: Recorded) -> Resource:
    """The resource as it was last applied."""
    ref = recorded.ref
    return Resource(
        ref=ref,
        spec=KINDS[ref.kind].parse(recorded.normal["spec"], ref.name),
        normal=recorded.normal,
        digest=recorded.digest,
        file=recorded.file,
    )


def in_force(desired: Desired, world: World, held_back: Collection[Ref]) -> Desired:
    """Desired with every ref of `held_back` as recorded, or left out where it never was."""
    if not held_back:
        return desired
    resources = {ref: one for ref, one in desired.resources.items() if ref not in held_back}
    resources.update({one.ref: one for one in recorded_of(world, held_back)})
    return replace(desired, resources=resources)


def recorded_of(world: World, refs: Iterable[Ref]) -> Iterable[Resource]:
    return (as_recorded(world.recorded[ref]) for ref in sorted(refs) if ref in world.recorded)
