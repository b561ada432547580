"""The answers of reading commands as frozen data; the codec encodes them as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from reconciler.model.host.capacity import Candidate, Need, Placement
from reconciler.model.host.endpoint import Endpoint
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.state.event import Event
from reconciler.model.state.world import Revocation, Suspension
from reconciler.operations.usage import CardRow, Used
from reconciler.planner.drift.notes import StrayKey


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """`age` is the seconds since the node last answered; None = never.

    `also` is what else is to be said of it, beside the gravest; `reuse` whether any of it may be
    given out, in the word that slots have for it too.
    """

    name: str
    posture: str
    family: str
    isolation: str
    slots: int
    held: int
    free: int
    admin: str = "active"
    reason: str = ""
    age: int | None = None
    source: str = ""
    problem: str = ""
    also: tuple[str, ...] = ()
    reuse: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRow:
    """`reuse` is whether it may be given out, beside the `posture` of its node.

    `vouched` is by whose word it was once freed without a proof; that stays.
    """

    node: str
    slot: str
    state: str
    cause: str = ""
    since: str = ""
    allocation: str = ""
    gpu: str = ""
    model: str = ""
    numa: int | None = None
    vouched: str = ""
    reuse: str = ""
    posture: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkuRow:
    """How many more allocations of this SKU fit now, once slots are clean, and are there.

    `after_expiries` fit once all that ends within a week has gone, the last of it at `by`.
    """

    sku: str
    shape: str
    gpus: int
    free: int
    after_cleanup: int
    held: int
    price_per_gpu_hour: str = ""
    currency: str = ""
    after_expiries: int = 0
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRow:
    """`stage` is how far it is within `phase`. `until` is empty for an open end.

    Owner and SKU are empty where nothing is recorded yet, `sessions` and `gpu_percent` None where a
    node does not say. `access` names who is let in, `way_in` is what they type, or the folder they
    go to. `storage` is what outlives it, as `data rw at /data/data`, `runtimes` what it runs, as
    `jupyter@4.6.6 staged`. `sync` is how a plan stands to it, empty where none was made, `health`
    what its host shows of it, `-` where nothing is there; each with its cause, and since when.
    """

    ref: str
    owner: str
    sku: str
    node: str
    slots: tuple[str, ...]
    phase: str
    health: str
    login: str
    sessions: int | None = None
    since: str = ""
    until: str = ""
    price_per_hour: str = ""
    currency: str = ""
    problem: str = ""
    stage: str = ""
    access: tuple[str, ...] = ()
    way_in: str = ""
    sync: str = ""
    sync_cause: str = ""
    sync_since: str = ""
    health_cause: str = ""
    health_since: str = ""
    gpu_percent: int | None = None
    observed_at: str = ""
    storage: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChanges:
    """What a plan of now would do, in numbers. `unknown` says why there is no plan."""

    commit: str = ""
    dirty: bool = False
    changes: int = 0
    held: int = 0
    blocked: int = 0
    waiting: int = 0
    errors: int = 0
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsYou:
    """Something a person has to look at; `command` is the next thing to type.

    For its `code` there is a runbook.
    """

    kind: str
    text: str
    command: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    id: str
    state: str
    started: str
    actor: str
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRow:
    """A loop of this state, by its lock and its last word. `why` says what is wrong with it.

    `phase` is what a round in hand is at, and `next_at` when the next one begins.
    """

    condition: str
    why: str
    actor: str
    pid: int
    since: str
    said_at: str
    phase: str
    next_at: str
    commit: str
    source: str
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Read from the store; no host is asked. `pending` is what a plan of now says.

    `loop` is None where none has run.

    With `source` it was read from what is published there, which tells of allocations alone.
    """

    state_id: str
    serial: int
    at: str
    observed_age: int | None
    nodes: Mapping[str, int] = field(default_factory=dict)
    gpus: Mapping[str, int] = field(default_factory=dict)
    storage: Mapping[str, int] = field(default_factory=dict)
    bundles: Mapping[str, int] = field(default_factory=dict)
    capacity: tuple[SkuRow, ...] = ()
    needs_you: tuple[NeedsYou, ...] = ()
    allocations: tuple[AllocationRow, ...] = ()
    last_run: LastRun | None = None
    suspended: tuple[Suspension, ...] = ()
    pending: PendingChanges | None = None
    loop: LoopRow | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a project's people may read without access to the state; nothing in it is secret.

    `observed_at` is the time of the oldest answer that it tells of, empty for none.
    """

    schema_version: int
    project: str
    state_id: str
    observed_at: str = ""
    people: Mapping[str, str] = field(default_factory=dict)
    """OS logins of members, and the Users they are."""
    allocations: tuple[AllocationRow, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One resource in its four states, never merged: desired, recorded, observed, execution.

    A state that is unknown or does not apply is None. With `source` it was read from what is
    published there, and `facts` are all that is known. `used` and `cards` are those of an
    allocation.
    """

    ref: str
    desired: Mapping[str, object] | None
    recorded: Mapping[str, object] | None
    observed: Mapping[str, object] | None
    execution: tuple[Mapping[str, object], ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Mapping[str, object], ...] = ()
    proofs: tuple[Mapping[str, object], ...] = ()
    events: tuple[Event, ...] = ()
    file: str = ""
    line: int = 0
    commit: str = ""
    author: str = ""
    source: str = ""
    used: Used | None = None
    cards: tuple[CardRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """Every node as placement saw it for one allocation, best first, then refused ones by rule."""

    ref: str
    need: Need | None
    placement: Placement | None
    candidates: tuple[Candidate, ...]
    problem: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRow:
    """One reason for one person to be let in to one allocation, as last applied.

    `cause` is the allocation itself for who stands in its `access`, else a grant. `keys` are those
    that open it now, `id fingerprint`; there are none unless `state` is active.
    """

    allocation: str
    user: str
    cause: str
    state: str
    privilege: str = "login"
    keys: tuple[str, ...] = ()
    until: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessReview:
    """Who is let in where and why; `unseen` are nodes that did not say what keys lie there."""

    rows: tuple[AccessRow, ...] = ()
    strays: tuple[StrayKey, ...] = ()
    pending: tuple[Revocation, ...] = ()
    unseen: tuple[str, ...] = ()
