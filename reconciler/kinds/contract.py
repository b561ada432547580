"""The contract of a kind: everything that is special to it, all of it pure.

Generic code does diff, drift, order, placement, journal and views; kinds never import each
other, they meet in Desired and World.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Protocol

from reconciler.model.host.capacity import Need, Placement
from reconciler.model.plan.plan import Step
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.spec.desired import Desired, Origin
from reconciler.model.spec.resource import Reference, Resource
from reconciler.model.state.volume import Volume
from reconciler.model.state.world import Recorded, World

Render = Callable[[str, Mapping[str, Any]], str]
"""Text of a template by name and values; an undefined value raises ProblemError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that a kind may look at while planning. `now` is an argument, never the clock."""

    desired: Desired
    world: World
    now: datetime
    render: Render
    sign: Callable[[str], str]
    """HMAC of a text by the control machine's descriptor key (rule 21), as hex."""
    origins: Mapping[Ref, Origin]
    """File → the commit that last changed it, for the files of changed resources."""
    template_digests: Mapping[str, str] = field(default_factory=dict)
    """Template → digest of its text: part of a basis, so that a new wording reaches the hosts."""
    leases_from: datetime | None = None
    """From when the time of what is to come counts: when the plan that people saw was made."""
    forced: frozenset[Ref] = frozenset()
    """Allocations whose own processes are ended where they keep a storage from being detached."""
    volumes: Mapping[Ref, Volume] = field(default_factory=dict)
    """What storages are made of, by the names that they will have; also those this plan begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One resource in its place, or about to leave it.

    An allocation has a `uid` of its own and the `gid` of its project exactly where its node
    isolates by accounts; else both are None. A node is its own place, and has neither id nor login.
    `restart` is the generation that it is to reach by a restart, 0 if it is not to be restarted.
    One in `quarantine` leaves, and all it has stays for the time being. `replaces` is the one whose
    lease goes on with it.
    """

    ref: Ref
    id: str
    login: str
    placement: Placement
    resource: Resource | None
    recorded: Recorded | None
    uid: int | None = None
    gid: int | None = None
    restart: int = 0
    quarantine: bool = False
    replaces: Recorded | None = None


class Kind(Protocol):
    """Modules of this folder fulfil it with module-level names."""

    NAME: str
    """The `kind:` of the document."""

    FIELD_RULES: Mapping[str, str]
    """Path in the normal form (`spec.keys[].publicKey`) → the change word of it and all below."""

    def parse(self, spec: Mapping[str, Any], name: str) -> Any:
        """The typed spec of a valid document, or of a recorded normal form."""

    def refs(self, resource: Resource) -> Iterable[Reference]:
        """Everything this resource refers to."""

    def check(self, resource: Resource, desired: Desired) -> Iterable[Problem]:
        """What only other documents, or arithmetic, can show to be wrong. No clock, no state."""

    def unsupported(self, resource: Resource) -> str:
        """What this version cannot do yet about it, in words; empty if it can do all of it."""

    def needs(self, resource: Resource, desired: Desired) -> Need | None:
        """The capacity it asks for; None for kinds without any."""

    def basis(self, binding: Binding, context: Context) -> Mapping[str, Any]:
        """Everything the host's files are rendered from; {} for kinds without host effects."""

    def steps(self, binding: Binding, context: Context) -> tuple[Step, ...]:
        """The work that makes the host show `expected`; released if `binding.resource` is None."""

    def expected(self, binding: Binding, context: Context) -> Mapping[str, str | None]:
        """Path on the host → fact; None = must not exist."""
