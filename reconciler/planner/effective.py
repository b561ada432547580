"""What will be in force once a plan is applied, as far as desired and recorded say.

Whatever this plan does not carry out (frozen, blocked, held, not asked for) counts as it was last
recorded: its keys stay, its node stays, and nothing of its new form is used by others. One thing
is not held back with the rest of a change: who is no longer named in it is let in no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from reconciler.kinds.registry import KINDS
from reconciler.model.canonical import digest
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


def in_force(
    desired: Desired, world: World, held_back: Collection[Ref], refused: Collection[Ref] = ()
) -> Desired:
    """Desired with every ref of `held_back` as recorded, or left out where it never was.

    Those of them that are `refused` name nobody who their new form does not name.
    """
    if not held_back:
        return desired
    resources = {ref: one for ref, one in desired.resources.items() if ref not in held_back}
    for one in recorded_of(world, held_back):
        wanted = desired.resources.get(one.ref) if one.ref in refused else None
        if wanted is None:
            resources[one.ref] = one
        elif not _for_another(one, wanted):
            resources[one.ref] = _narrowed(one, wanted)
    return replace(desired, resources=resources)


LETS_IN: Mapping[str, str] = MappingProxyType({"allocation": "access", "project": "members"})
"""Where documents list people who may log in, or without whom nobody may."""


def _for_another(recorded: Resource, wanted: Resource) -> bool:
    """Whether a grant is no longer for whom, or for what, it was given."""
    before, after = recorded.normal["spec"], wanted.normal["spec"]
    return recorded.ref.kind == "grant" and any(
        before[field] != after[field] for field in ("user", "allocation")
    )


def _narrowed(recorded: Resource, wanted: Resource) -> Resource:
    """Revocation waits for no other part of a change (rule 9)."""
    field = LETS_IN.get(recorded.ref.kind)
    if field is None:
        return recorded
    spec = recorded.normal["spec"]
    named = {_person(entry) for entry in wanted.normal["spec"][field]}
    kept = [entry for entry in spec[field] if _person(entry) in named]
    if len(kept) == len(spec[field]):
        return recorded
    normal = {**recorded.normal, "spec": {**spec, field: kept}}
    parsed = KINDS[recorded.ref.kind].parse(normal["spec"], recorded.ref.name)
    return replace(recorded, spec=parsed, normal=normal, digest=digest(normal))


def _person(entry: Any) -> str:
    return str(entry["user"] if isinstance(entry, Mapping) else entry)


def recorded_of(world: World, refs: Iterable[Ref]) -> Iterable[Resource]:
    return (as_recorded(world.recorded[ref]) for ref in sorted(refs) if ref in world.recorded)
