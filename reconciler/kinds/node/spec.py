"""The typed spec of a Node: what an operator says of one host and its slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter

from reconciler.kinds.checks.findings import same_moment
from reconciler.kinds.typed_specs import TypedSpecs
from reconciler.model.codec import decode
from reconciler.model.host.capacity import Isolation, Shape, Sharing
from reconciler.model.host.cpus import format_cpus, parse_cpus
from reconciler.model.plan.work import LOCAL
from reconciler.model.records import dataclass
from reconciler.model.settings import Settings


class AdminState(StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"
    EVACUATING = "evacuating"
    UNAVAILABLE = "unavailable"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """`user` is empty where the fleet's own control login is meant."""

    port: int = 22
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    machine_id: str
    host_keys: tuple[str, ...]
    serial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """What the host keeps for itself."""

    cpus: str = ""
    memory_gib: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    state: AdminState = AdminState.ACTIVE
    reason: str | None = None
    until: str | None = None
    attested_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotGpu:
    uuid: str
    pci_address: str
    model: str
    memory_mib: int
    serial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvme:
    id: str
    size_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSpec:
    pci_address: str
    name: str | None = None
    rdma: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotVm:
    iommu_group: int | None = None
    hugepages_gib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disabled:
    reason: str
    ticket: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One schedulable unit, given out only once approved."""

    name: str
    gpu: SlotGpu
    numa: int
    cpus: str
    memory_gib: int
    nvme: Nvme | None = None
    nic: NicSpec | None = None
    vm: SlotVm | None = None
    disabled: Disabled | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NameDigest:
    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A human's word over the identity of what it covers, as it was when the digests were made.

    `digests` has one for each covered name; `digest`, in its place, is one of all of them.
    """

    by: str
    at: str
    covers: tuple[str, ...]
    digest: str | None = None
    digests: tuple[NameDigest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    id: int
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    partitions: tuple[Partition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVm:
    image: str
    bridge: str
    firmware: str = "uefi"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """`identity` is None only for isolation `directory` on this machine."""

    address: str
    public_address: str
    family: str
    isolation: Isolation
    sharing: Sharing
    slots: tuple[Slot, ...]
    ssh: Ssh = field(default_factory=Ssh)
    identity: Identity | None = None
    shapes: tuple[Shape, ...] = (Shape.GPU_SLICE,)
    root: str = "/"
    reserve: Reserve = field(default_factory=Reserve)
    admin: Admin = field(default_factory=Admin)
    approvals: tuple[Approval, ...] = ()
    fabric: Fabric | None = None
    vm: NodeVm | None = None

    @property
    def is_local(self) -> bool:
        """Whether it stands for this machine itself."""
        return self.address == LOCAL


CONTROL_LOGIN = "gpuaas"


def control_login(spec: NodeSpec, settings: Settings) -> str:
    """Who works on the host: as the node says, else as gpuaas.yaml does."""
    return spec.ssh.user or settings.ssh.user or CONTROL_LOGIN


def read_node(spec: Mapping[str, object], name: str = "") -> NodeSpec:
    """The typed spec, in the one spelling that equal intents share."""
    sharing = Sharing.TENANT if spec["isolation"] == Isolation.ACCOUNT else Sharing.ANY
    defaults = {"publicAddress": spec["address"], "sharing": sharing}
    node = decode(NodeSpec, {**defaults, **spec})
    return replace(
        node,
        shapes=tuple(sorted(node.shapes)),
        identity=node.identity
        and replace(node.identity, host_keys=tuple(sorted(node.identity.host_keys))),
        reserve=replace(node.reserve, cpus=_same_cpus(node.reserve.cpus)),
        admin=replace(node.admin, until=same_moment(node.admin.until)),
        slots=tuple(map(_same_slot, sorted(node.slots, key=attrgetter("name")))),
        approvals=tuple(
            replace(
                one,
                at=same_moment(one.at) or one.at,
                covers=tuple(sorted(one.covers)),
                digests=tuple(sorted(one.digests, key=attrgetter("name"))),
            )
            for one in node.approvals
        ),
        fabric=node.fabric and Fabric(partitions=_same_partitions(node.fabric.partitions)),
    )


def _same_slot(slot: Slot) -> Slot:
    cpus = _same_cpus(slot.cpus)
    return slot if cpus == slot.cpus else replace(slot, cpus=cpus)


@lru_cache(maxsize=65536)
def _same_cpus(text: str) -> str:
    """What cannot be read stays as it is, for the check to refuse."""
    try:
        return format_cpus(parse_cpus(text))
    except ValueError:
        return text


def _same_partitions(partitions: tuple[Partition, ...]) -> tuple[Partition, ...]:
    ordered = sorted(partitions, key=attrgetter("id"))
    return tuple(replace(one, slots=tuple(sorted(one.slots))) for one in ordered)


NODES = TypedSpecs(kind="node", parse=read_node)
