"""Work: what a host is asked to do, and what it answers for each item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from reconciler.model.host.evidence import Observation, Proof
from reconciler.model.plan.claim import ClaimIntent
from reconciler.model.plan.plan import Step
from reconciler.model.problem import Problem
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.volume import Joining

LOCAL = "local"
"""The address of this machine itself, as a folder that stands for a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """How a node is reached and what must be true of it before anything is done.

    `root` is absolute; `machine_id` and `host_keys` are empty only where `address` is `local`.
    `boot_id` is of the boot that the evidence is of; where it is empty, any will do.
    """

    node: str
    address: str
    root: str
    isolation: str
    port: int = 22
    user: str = ""
    machine_id: str = ""
    host_keys: tuple[str, ...] = ()
    identity_file: str = ""
    boot_id: str = ""

    @property
    def is_local(self) -> bool:
        return self.address == LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWork:
    """The ordered steps of one host in one wave."""

    host: Host
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A host's own word on one step; never a proof."""

    step: str
    node: str
    verb: str
    ok: bool
    changed: bool = False
    evidence: Mapping[str, object] = field(default_factory=dict)
    problem: Problem | None = None
    unknown: bool = False
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProgress:
    """One line of live progress: `phase` is connect, converge, observe, build, done or failed.

    It is `ready` when somebody can get in, who is told how in `detail`.
    """

    node: str
    phase: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """A step judged: by its receipt, and by the facts read back in a call of their own."""

    step: Step
    ok: bool
    changed: bool
    unknown: bool = False
    problem: Problem | None = None
    log: str = ""


NOTHING_JOINS = Joining()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveIntent:
    """What is written down of a wave before any host is touched.

    Of a ref in `releasing` only those allocations are given up that its retiring steps name: a
    replaced allocation goes, the one that took its place stays.
    """

    steps: tuple[Step, ...] = ()
    claims: tuple[ClaimIntent, ...] = ()
    releasing: tuple[Ref, ...] = ()
    joining: Joining = NOTHING_JOINS


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveOutcome:
    """`ticks` says by node when its host came to which phase.

    `untouched` are allocations that a host refused and shows nothing of: their claims are let go.
    """

    steps: tuple[StepOutcome, ...]
    observations: tuple[Observation, ...] = ()
    proofs: tuple[Proof, ...] = ()
    untouched: Mapping[str, Ref] = field(default_factory=dict)
    ticks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
