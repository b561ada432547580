"""Evidence: what a host said about itself, when, and by which probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.model.host.topology import Topology
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFact:
    """One card as nvidia-smi and sysfs tell it; None = the host could not say.

    `minor` is the number of its device node, which is no index.
    """

    uuid: str
    pci_address: str
    model: str
    memory_mib: int | None = None
    memory_used_mib: int | None = None
    utilization: int | None = None
    driver: str | None = None
    numa: int | None = None
    minor: int | None = None
    processes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeProblem:
    """A probe that did not answer: what it would have told is unknown, not absent."""

    probe: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """`source` is `host` or `standin`. `paths` maps every path of the platform below the node's
    root to its fact (`dir 0700`, `file 0644 sha256:…`, `link …`); None = the listing failed.
    `descriptors` maps allocation ids found on the host to the state id that made them. `platform`
    holds facts that are no paths, each named `<word> <name>`; `<word> *` says that all of a word
    were listed, so that what is not among them is not there. A fact that could not be read begins
    with `unknown`. `leftovers` maps each uid asked about to what is still there of it; a uid that
    is not among them could not be looked through. `stray_keys` maps logins to keys that people have
    put into files of their own, where they open nothing. `topology` is told only when a host is
    discovered. `descriptor_texts` (by allocation id, '' where a file is no descriptor),
    `volume_texts` (by volume id, alike, with who has it) and `strangers` are told only when asked
    for: `strangers` maps each uid in the range of tenants to what there is of it, and `cards` to
    cards that somebody holds who was not given them. `card_errors` maps PCI addresses to what the
    driver counts and the kernel has logged of a card since the boot, as `xid 79`; a card that is
    not in it has no errors. `fabric` says what is wrong with the fabric of all cards, as `manager
    failed`; older probes do not tell it. `holders` maps UUIDs of cards to the processes that have
    them open, whoever these are of; it is told where somebody is proved gone, and a card whose
    device node is not known is not in it. `drive_users` says what each of `nvmes` is mounted at or
    part of, empty if nobody uses it. `restarts` maps allocation ids to how far the last restart of
    each has come, `generation 3` if it is through. `volumes` maps ids of volumes to the `sizeMiB`
    of what they lie on and, where it is known, to their `usedMiB`. `running` says of each tenant's
    login what would end with it just now.
    """

    source: str
    machine_id: str = ""
    boot_id: str = ""
    os: str = ""
    cpus: str = ""
    memory_mib: int | None = None
    gpus: tuple[GpuFact, ...] | None = None
    card_errors: Mapping[str, tuple[str, ...]] | None = None
    fabric: tuple[str, ...] | None = None
    holders: Mapping[str, tuple[str, ...]] | None = None
    nvmes: tuple[str, ...] | None = None
    drive_users: Mapping[str, str] | None = None
    nics: Mapping[str, str] | None = None
    paths: Mapping[str, str] | None = None
    platform: Mapping[str, str] | None = None
    leftovers: Mapping[str, tuple[str, ...]] | None = None
    stray_keys: Mapping[str, tuple[str, ...]] | None = None
    descriptors: Mapping[str, str] | None = None
    descriptor_texts: Mapping[str, str] | None = None
    volume_texts: Mapping[str, str] | None = None
    strangers: Mapping[str, tuple[str, ...]] | None = None
    sessions: Mapping[str, int] | None = None
    restarts: Mapping[str, str] | None = None
    running: Mapping[str, tuple[str, ...]] | None = None
    sizes: Mapping[str, int] | None = None
    volumes: Mapping[str, Mapping[str, int]] | None = None
    topology: Topology | None = None
    problems: tuple[ProbeProblem, ...] = ()
    probe_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One answer of one node.

    `problem` is set, and `facts` None, when there was no answer; `answered_at` is then the time of
    the last real answer and `facts` stay unknown.
    """

    node: str
    at: str
    facts: NodeFacts | None = None
    digest: str = ""
    problem: str = ""
    message: str = ""
    unreachable_since: str = ""
    answered_at: str = ""

    @property
    def last_answer(self) -> str:
        """When the host last answered, whatever it does now; empty if it never did."""
        return self.at if self.facts is not None else self.answered_at


class CheckResult(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One measured fact of a proof; unknown is not proved."""

    name: str
    result: CheckResult
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether a slot was left clean. `slot` is None when the whole node was held."""

    id: str
    allocation_id: str
    node: str
    slot: str | None
    at: str
    boot_id: str
    checks: tuple[Check, ...] = field(default=())
    source: str = "host"

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(c.result is CheckResult.PASS for c in self.checks)
