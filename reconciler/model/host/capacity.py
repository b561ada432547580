"""Capacity: nodes, slots, what an allocation needs, and claims on slots."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from reconciler.model.records import dataclass
from reconciler.model.ref import Ref


class Shape(StrEnum):
    BAREMETAL = "baremetal"
    GPU_SLICE = "gpu_slice"


class Isolation(StrEnum):
    DIRECTORY = "directory"
    ACCOUNT = "account"
    VM = "vm"


class Sharing(StrEnum):
    PROJECT = "project"
    TENANT = "tenant"
    ANY = "any"


class ClaimState(StrEnum):
    """`held` and `releasing` count as live; `cleanup_blocked` is live but leaves quota and bill."""

    HELD = "held"
    RELEASING = "releasing"
    CLEANUP_BLOCKED = "cleanup_blocked"
    FREED = "freed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A live claim. `slot` is None for baremetal: the claim is on the whole node.

    `machine_id` is that of the machine that it was made on, empty where nobody knows it;
    `blocked_since` is when a proof first failed to free it, empty for what is not blocked, and
    `lease_since` when its lease began where that was in another place.
    """

    id: str
    allocation_id: str
    ref: Ref
    node: str
    slot: str | None
    shape: Shape
    state: ClaimState
    since: str
    tenant: str = ""
    project: str = ""
    problem: str = ""
    machine_id: str = ""
    blocked_since: str = ""
    lease_since: str = ""

    @property
    def begun(self) -> str:
        """When its lease began."""
        return self.lease_since or self.since

    @property
    def state_since(self) -> str:
        """Since when it is in its state, as far as that is written down."""
        return self.blocked_since or self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageNeed:
    """Where one storage can be attached.

    This is its `node` (empty where that is still open), on nodes that have its class, which are all
    if both `nodes` and `families` are empty.
    """

    name: str
    class_name: str
    isolation: tuple[Isolation, ...]
    node: str = ""
    nodes: tuple[str, ...] = ()
    families: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeNeed:
    """One version of a bundle and what it runs on, as far as anybody has said: empty says nothing.

    `vendor` is `none` for what needs no GPU. Unless it `may_be_unknown`, what cannot be told of a
    node is an objection. `others` are versions of the same bundle that may be named instead.
    """

    bundle: str
    version: str
    vendor: str = ""
    families: tuple[str, ...] = ()
    driver_min: str = ""
    cuda: str = ""
    may_be_unknown: bool = False
    others: tuple[RuntimeNeed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What an allocation asks of placement. `slots` is 0 for baremetal: every slot of one node."""

    ref: Ref
    sku: str
    shape: Shape
    slots: int
    families: tuple[str, ...]
    isolation: tuple[Isolation, ...]
    min_cpus_per_slot: int
    min_memory_gib_per_slot: int
    rdma: bool
    tenant: str
    project: str
    pin: str = ""
    storage: tuple[StorageNeed, ...] = ()
    runtimes: tuple[RuntimeNeed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One node as placement saw it. `rule` is the first rule that refused it, '' if it fits.

    A lower `score` wins; ties fall to the node's name, then to the slots' order in the spec.
    """

    node: str
    slots: tuple[str, ...] = ()
    rule: str = ""
    detail: str = ""
    score: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The chosen place. `numa` are the NUMA nodes touched, `fitting` the nodes that fitted."""

    node: str
    slots: tuple[str, ...]
    shape: Shape
    numa: tuple[int, ...] = ()
    fitting: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """No place: `refusals` counts nodes by the rule that refused them first.

    `outlook` says when there may be one, as far as anything known does.
    """

    refusals: Mapping[str, int]
    nearest: str = ""
    outlook: str = ""


class SlotState(StrEnum):
    FREE = "free"
    HELD = "held"
    RELEASING = "releasing"
    CLEANUP_BLOCKED = "cleanup_blocked"
    NOT_APPROVED = "not_approved"
    NOT_READY = "not_ready"
    DISABLED = "disabled"
    DRAINING = "draining"
    UNAVAILABLE = "unavailable"
    UNKNOWN = "unknown"
