"""Typed specs: the resources of one kind, each with the spec that its kind's module defines.

As git wants them, from Desired, and as they were last applied, from World.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast

from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource
from reconciler.model.state.world import Recorded, World

SpecT = TypeVar("SpecT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedSpecs(Generic[SpecT]):
    """`kind` is the word of a ref. What is handed in must be of that kind."""

    kind: str
    parse: Callable[[Mapping[str, Any], str], SpecT]

    def of(self, desired: Desired) -> Iterator[Resource[SpecT]]:
        """The resources of one kind, in the order of their refs."""
        return cast("Iterator[Resource[SpecT]]", desired.of(self.kind))

    def get(self, desired: Desired, name: str, project: str = "") -> Resource[SpecT] | None:
        return self.at(desired, Ref(self.kind, project, name))

    def at(self, desired: Desired, ref: Ref) -> Resource[SpecT] | None:
        """What has this ref; None if it is of another kind."""
        found = desired.resources.get(ref) if ref.kind == self.kind else None
        return cast("Resource[SpecT] | None", found)

    def own(self, resource: Resource | None) -> Resource[SpecT] | None:
        """The resource as one of this kind; None if it is of another."""
        found = resource if resource is not None and resource.ref.kind == self.kind else None
        return cast("Resource[SpecT] | None", found)

    def among(self, refs: Iterable[Ref]) -> Iterator[Ref]:
        """Those of this kind, in their order."""
        return (ref for ref in refs if ref.kind == self.kind)

    def spec(self, stated: Resource | Recorded) -> SpecT:
        """Of what may be of any kind as far as types say."""
        if isinstance(stated, Recorded):
            return self.applied(stated)
        return cast("SpecT", stated.spec)

    def applied(self, recorded: Recorded) -> SpecT:
        """As it was last applied."""
        return recorded.spec(self.parse)

    def last(self, world: World, name: str, project: str = "") -> SpecT | None:
        """As it was last applied; None for what is not recorded."""
        recorded = world.recorded.get(Ref(self.kind, project, name))
        return self.applied(recorded) if recorded else None

    def recorded(self, world: World) -> Iterator[Recorded]:
        """All of the kind, in no order."""
        return (world.recorded[ref] for ref in world.refs_of(self.kind))
