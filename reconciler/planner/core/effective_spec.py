"""The effective spec: what will be in force after a plan, from desired and recorded.

Whatever this plan does not carry out (frozen, blocked, held, not asked for) counts as it was last
recorded: its keys stay, its node stays, and nothing of its new form is used by others. One thing
is not held back with the rest of a change: whoever is let in by less is let in by that alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from reconciler.kinds.access.takeaway import RULES, remaining
from reconciler.kinds.registry import KINDS
from reconciler.model.canonical import digest
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.reading import Reading, whole
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded, World


def as_recorded(recorded: Recorded) -> Resource:
    """The resource as it was last applied."""
    ref = recorded.ref
    return Resource(
        ref=ref,
        spec=recorded.spec(KINDS[ref.kind].parse),
        normal=recorded.normal,
        digest=recorded.digest,
        file=recorded.file,
    )


def in_force(
    desired: Desired, world: World, held_back: Collection[Ref], refused: Collection[Ref] = ()
) -> Desired:
    """Desired with every ref of `held_back` as recorded, or left out where it never was.

    Those of them that are `refused` let in nobody, and by nothing, that their new form does not.
    """
    if not held_back:
        return desired
    resources = {ref: one for ref, one in desired.resources.items() if ref not in held_back}
    for one in recorded_of(world, held_back):
        wanted = desired.resources.get(one.ref) if one.ref in refused else None
        left = less(one, [whole(wanted)]) if wanted is not None else one
        if left is not None:
            resources[one.ref] = left
    return replace(desired, resources=resources)


NAMING: Mapping[str, str] = MappingProxyType({"allocation": "access", "project": "members"})
"""Where documents list people who may log in, or without whom nobody may."""


def less(recorded: Resource, readings: Sequence[Reading]) -> Resource | None:
    """What was recorded, less what any reading takes from it (rule 9); itself where none does.

    None: nothing is left of it.
    """
    kind, spec = recorded.ref.kind, whole(recorded).spec
    left = remaining(kind, spec, readings) if kind in RULES else spec
    if left is None or left is spec:
        return None if left is None else recorded
    normal = {**recorded.normal, "spec": left}
    parsed = KINDS[kind].parse(left, recorded.ref.name)
    return replace(recorded, spec=parsed, normal=normal, digest=digest(normal))


def recorded_of(world: World, refs: Iterable[Ref]) -> Iterable[Resource]:
    return (as_recorded(world.recorded[ref]) for ref in sorted(refs) if ref in world.recorded)
