"""The case: all that is known of one resource, from which its reasons are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from reconciler.kinds.node.spec import NodeSpec
from reconciler.model.host.evidence import Check
from reconciler.model.plan.plan import Change
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.spec.resource import Resource
from reconciler.model.state.event import Event, EventType
from reconciler.model.state.world import Recorded, World
from reconciler.operations.node.show import InForce
from reconciler.operations.views import AccessRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecPlace:
    """Where something stands: `line` is 0 where only the file is known."""

    file: str = ""
    line: int = 0
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One link of the chain; `command` shows more of it."""

    about: str
    text: str
    place: SpecPlace = field(default_factory=SpecPlace)
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyCase:
    """All that a chain is made from. `node` is the one it is on, or is itself.

    `events` are those of the ref, `change` what a plan would do about it now, `places` where the
    documents stand that links speak of.
    """

    ref: Ref
    now: datetime
    world: World
    desired: Desired
    resource: Resource | None = None
    recorded: Recorded | None = None
    change: Change | None = None
    events: tuple[Event, ...] = ()
    health: str = ""
    node: Resource[NodeSpec] | None = None
    approvals: tuple[InForce, ...] = ()
    checks: tuple[Check, ...] = ()
    access: tuple[AccessRow, ...] = ()
    places: Mapping[Ref, SpecPlace] = field(default_factory=dict)

    def place(self, ref: Ref) -> SpecPlace:
        return self.places.get(ref, SpecPlace())

    def last(self, *types: EventType) -> Event | None:
        return next((one for one in reversed(self.events) if one.type in types), None)

    @property
    def node_name(self) -> str:
        if self.ref.kind == "node":
            return self.ref.name
        return self.recorded.node if self.recorded else ""
