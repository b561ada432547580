"""World: everything the store knows, read in one transaction and never changed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeVar

from reconciler.model.host.capacity import Claim, Shape
from reconciler.model.host.evidence import Observation
from reconciler.model.plan.approval import Consent, Removal
from reconciler.model.plan.drift import Acceptance
from reconciler.model.plan.lifecycle import Phase, StepState
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.failure import Failure
from reconciler.model.state.install import Install
from reconciler.model.state.volume import Attachment, Volume

SpecT = TypeVar("SpecT")


class RecordedProblem(StrEnum):
    """What is the matter with something that was applied.

    `forgotten`: it was let go of. `cleanup_blocked`: it goes, and was not proved to leave nothing.
    """

    NONE = ""
    FORGOTTEN = "forgotten"
    CLEANUP_BLOCKED = "cleanup_blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A resource as last applied. `normal` and `digest` are those of the Resource of that time.

    For an allocation: `id`, `login`, `node`, `slots`, and `facts`, the facts its host must show
    (path → fact); `basis` is the digest of everything these facts were rendered from. It lives
    until `expires_at`, empty if without an end; one in quarantine can come back until `undo_until`.
    """

    ref: Ref
    normal: Mapping[str, Any]
    digest: str
    file: str = ""
    commit: str = ""
    applied_at: str = ""
    generation: int = 1
    phase: Phase = Phase.ACTIVE
    protect: bool = False
    id: str = ""
    login: str = ""
    node: str = ""
    slots: tuple[str, ...] = ()
    shape: Shape | None = None
    basis: str = ""
    facts: Mapping[str, str | None] = field(default_factory=dict)
    problem: RecordedProblem = RecordedProblem.NONE
    expires_at: str = ""
    undo_until: str = ""
    lease_until: str = ""
    """The end that it had when it was let go of; nothing ends it meanwhile."""
    _spec: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def spec(self, parse: Callable[[Mapping[str, Any], str], SpecT]) -> SpecT:
        """What was applied as `parse`, that of its kind, understands it; it is asked once."""
        # Looked at each time: a text that is not what was recorded has to be noticed.
        stated = self.normal["spec"]
        if not self._spec:
            self._spec.append(parse(stated, self.ref.name))
        spec: SpecT = self._spec[0]
        return spec

    def take_spec(self, spec: object) -> None:
        """Its typed form, from a resource of the same digest: that need not be parsed again."""
        self._spec[:] = (spec,)

    @property
    def forgotten(self) -> bool:
        """Whether the resource is no longer managed.

        It stays on its host and holds its slots, and gpuaas does nothing about it until git names
        it again.
        """
        return self.problem is RecordedProblem.FORGOTTEN


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStep:
    """A step whose end was never written: its outcome is unknown until the host is observed."""

    run: str
    step: str
    ref: Ref
    verb: str
    node: str
    state: StepState
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """`incarnations` holds how often a ref was created; ids are never reused.

    `login_of` holds the login of every allocation that ever had a claim, by its id, and `uids` the
    uid of every one that has or had an account. `gids` are those of projects that live,
    `given_gids` those of all that ever did: none is given twice. `last_uid` and `last_gid` are the
    highest ever given, 0 if none was; up to `least_uid` and `least_gid` any may have been, before
    the state was lost.
    `least_incarnation` is how often anything may have been created before the state was lost.
    """

    incarnations: Mapping[Ref, int] = field(default_factory=dict)
    logins: frozenset[str] = frozenset()
    login_of: Mapping[str, str] = field(default_factory=dict)
    uids: Mapping[str, int] = field(default_factory=dict)
    gids: Mapping[str, int] = field(default_factory=dict)
    given_gids: frozenset[int] = frozenset()
    last_uid: int = 0
    last_gid: int = 0
    least_uid: int = 0
    least_gid: int = 0
    least_incarnation: int = 0

    def incarnation(self, ref: Ref) -> int:
        """How often `ref` was created at most."""
        return max(self.incarnations.get(ref, 0), self.least_incarnation)


class DoubtKind(StrEnum):
    """`unseen`: what lies on the node may be an allocation that this state knows nothing of.

    `unproved`: a slot of it may not have been left clean, though nobody holds it.
    """

    UNSEEN = "unseen"
    UNPROVED = "unproved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What a state that was lost, or that is older than its hosts, cannot say of a node."""

    node: str
    kind: DoubtKind
    reason: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """Something that an operator took away for now; `scope` is a ref, `project/x` or `all`."""

    scope: str
    reason: str
    actor: str
    since: str
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """Access taken away that a host has not shown to have ended; `since` the first try.

    `people` are users who lost all, and `user/key` for a key of somebody who keeps others.
    """

    ref: Ref
    node: str
    people: tuple[str, ...]
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Somebody's word that freed a claim in the place of a proof; its place stays marked by it."""

    claim: str
    ref: str
    node: str
    slot: str | None
    actor: str
    reason: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`serial` is the sequence of the last event that changed recorded, claim or admin state.

    `waiting` maps a ref that found no capacity to the time it was first seen, `lapsed` one that has
    gone since its time was over to when that was. `overrides` are all that there ever were, oldest
    first. `idle_mib` is the least that a card was seen to use while nobody had it, by its UUID and
    driver. `volumes` maps a Storage to what it is made of, as long as its data may exist, and
    `attachments` are all that have not ended; `wiped` is what is gone, by its id. `failures` are
    what counts against nodes, by their names. `written_by` is the version that applied last.
    `consents` are those that nobody has used, `removals` what was let go of within a day.
    """

    state_id: str
    serial: int
    recorded: Mapping[Ref, Recorded]
    claims: tuple[Claim, ...] = ()
    observations: Mapping[str, Observation] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    waiting: Mapping[Ref, str] = field(default_factory=dict)
    lapsed: Mapping[Ref, str] = field(default_factory=dict)
    open_steps: tuple[OpenStep, ...] = ()
    suspensions: tuple[Suspension, ...] = ()
    accepted_drift: tuple[Acceptance, ...] = ()
    revocations: tuple[Revocation, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    overrides: tuple[Override, ...] = ()
    idle_mib: Mapping[tuple[str, str], int] = field(default_factory=dict)
    volumes: Mapping[Ref, Volume] = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    wiped: Mapping[str, Volume] = field(default_factory=dict)
    installs: tuple[Install, ...] = ()
    failures: Mapping[str, Failure] = field(default_factory=dict)
    written_by: str = ""
    consents: tuple[Consent, ...] = ()
    removals: tuple[Removal, ...] = ()
    _refs: dict[str, list[Ref]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _indexes: dict[str, dict[str, list[Any]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def refs_of(self, kind: str) -> Sequence[Ref]:
        """All that is recorded of one kind, in the order in which it was read."""
        if not self._refs:
            for ref in self.recorded:
                self._refs.setdefault(ref.kind, []).append(ref)
        return self._refs.get(kind, ())

    def node_of(self, ref: Ref) -> str:
        """The node that something is on, or is; empty where it is on none, or was never applied."""
        if ref.kind == "node":
            return ref.name
        recorded = self.recorded.get(ref)
        return recorded.node if recorded else ""

    def claims_on(self, node: str) -> Sequence[Claim]:
        """Live claims on a node or its slots."""
        return self._index("node", self.claims, "node").get(node, ())

    def claimed_since(self, one: Recorded) -> str:
        """Since when it has what it has; empty where it has nothing."""
        claims = self._index("id of a claim", self.claims, "allocation_id").get(one.id, ())
        return next((c.since for c in claims), "")

    def attachments_of(self, volume: str) -> Sequence[Attachment]:
        """Who has a volume, or may have it."""
        return self._index("volume", self.attachments, "volume").get(volume, ())

    def attachments_by(self, allocation_id: str) -> Sequence[Attachment]:
        """What an allocation has, or may have."""
        return self._index("holder", self.attachments, "allocation_id").get(allocation_id, ())

    def volume_of(self, id: str) -> Volume | None:
        """A volume by its id, as long as its data may exist."""
        found = self._index("id", self.volumes.values(), "id").get(id)
        return found[0] if found else None

    def _index(
        self, name: str, listed: Iterable[Any], field_name: str
    ) -> Mapping[str, Sequence[Any]]:
        """Sorted out once, so that a look per resource stays linear."""
        found = self._indexes.get(name)
        if found is None:
            found = self._indexes[name] = {}
            for one in listed:
                found.setdefault(getattr(one, field_name), []).append(one)
        return found
