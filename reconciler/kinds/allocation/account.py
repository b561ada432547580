"""Allocation on a node of isolation `account`: a Linux account, and the slice that confines it.

The account's numbers are given; what it may use is the sum of its slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.kinds.allocation.containers import allows_containers
from reconciler.kinds.contract import Binding, Context, Render
from reconciler.kinds.node.spec import NODES, Slot
from reconciler.model.host import layout
from reconciler.model.host.cpus import format_cpus, parse_cpus
from reconciler.model.host.facts.tenant_fact import ENTRANCE, MADE, TenantWord
from reconciler.model.host.posix import SUBIDS, inside, loopback_of, numbers
from reconciler.model.plan.items.allocation import AccountItem
from reconciler.model.plan.items.item import FolderItem
from reconciler.model.records import dataclass

SLICE = "allocation/slice.conf.j2"
USER_MANAGER = "allocation/user.conf.j2"
SHM_MOUNT = "allocation/shm.mount.j2"
DEVICES = "allocation/devices.json.j2"
LOOPBACK = "allocation/loopback.nft.j2"
TEMPLATES = (SLICE, USER_MANAGER, SHM_MOUNT, DEVICES, LOOPBACK)

TENANTS = "gpuaas-tenants"
SHELL = "/bin/bash"
TASKS = 16384
GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account of a tenant on its host.

    `gpus` are UUIDs; `cpus` and `mems` are sets as Linux writes them. With `containers` it has ids
    of its own to give out inside them. Its share of the disks is that of its `slots` in
    `node_slots`.
    """

    login: str
    uid: int
    gid: int
    group: str
    gpus: tuple[str, ...]
    cpus: str
    mems: str
    memory_bytes: int
    slots: int
    node_slots: int
    containers: bool = False

    @property
    def loopback(self) -> str:
        return loopback_of(self.uid)

    @property
    def subids(self) -> int:
        """The first of them; 0 if there are none."""
        return inside(self.uid)[0] if self.containers else 0

    @property
    def shm_bytes(self) -> int:
        """Half of its memory, of which it is a part: loaders of training data live in there."""
        return self.memory_bytes // 2


def account_of(binding: Binding, slots: Sequence[Slot], context: Context) -> Account | None:
    """None on a node without accounts. `slots` are those of the placement."""
    if binding.uid is None:
        return None
    return Account(
        login=binding.login,
        uid=binding.uid,
        gid=binding.gid or 0,
        group=f"p-{binding.ref.project[:20]}-{binding.gid or 0}",
        gpus=tuple(sorted(slot.gpu.uuid for slot in slots)),
        cpus=format_cpus(cpu for slot in slots for cpu in parse_cpus(slot.cpus)),
        mems=format_cpus(slot.numa for slot in slots),
        memory_bytes=sum(slot.memory_gib for slot in slots) * GIB,
        slots=len(slots),
        node_slots=max(len(slots), _slots_of(binding.placement.node, context)),
        containers=allows_containers(context.desired),
    )


def _slots_of(node: str, context: Context) -> int:
    """How many it is sold by."""
    resource = NODES.get(context.desired, node)
    spec = resource.spec if resource else NODES.last(context.world, node)
    return len(spec.slots) if spec else 0


def item(account: Account, id: str) -> AccountItem:
    """What the host needs to make it, besides folders and files."""
    return AccountItem(
        uid=account.uid,
        gid=account.gid,
        group=account.group,
        gecos=f"gpuaas {id}",
        shm_bytes=account.shm_bytes,
        subids=account.subids,
        slots=account.slots,
        node_slots=account.node_slots,
    )


def files(account: Account, values: Mapping[str, object], render: Render) -> Mapping[str, str]:
    """Path → content; none of it is the tenant's to change."""
    told = {
        **values,
        "shm": layout.instance("shm").of(account.login),
        "cpus": account.cpus,
        "mems": account.mems,
        "memoryBytes": account.memory_bytes,
        "shmBytes": account.shm_bytes,
        "tasks": TASKS,
        "uuids": list(account.gpus),
        "loopback": account.loopback,
        "numbers": list(numbers(account.uid)),
    }
    uid, login = account.uid, account.login
    return {
        _slice_path(uid): render(SLICE, told),
        _user_manager_path(uid): render(USER_MANAGER, told),
        _mount_path(login): render(SHM_MOUNT, told),
        layout.DEVICES.of(uid): render(DEVICES, told),
        layout.LOOPBACK.of(uid): render(LOOPBACK, told),
    }


def session_environment(account: Account) -> str:
    """What PAM gives to every session of it."""
    return f"{_session_folder(account.login)}/env"


def session_folder(account: Account) -> FolderItem:
    """Of root, and read at every login."""
    return FolderItem(path=_session_folder(account.login), mode="0755")


def facts(account: Account) -> Mapping[str, str | None]:
    login, subids = account.login, account.subids
    values = (
        f"uid={account.uid} gid={account.gid} group={account.group} groups={TENANTS}"
        f" home={layout.HOME.of(login)} shell={SHELL} password=locked",
        f"policy=closed devices={','.join(account.gpus)} cpus={account.cpus}"
        f" mems={account.mems} memory={account.memory_bytes} swap=0 tasks={TASKS}",
        "denied",
        "denied",
        f"tmpfs {account.shm_bytes}",
        ", ".join(f"{account.loopback} of uid {one}" for one in numbers(account.uid)),
        f"uid={subids}+{SUBIDS} gid={subids}+{SUBIDS}" if subids else None,
        f"{account.slots} of {account.node_slots}",
        ENTRANCE[TenantWord.LOGIN],
    )
    return {word.of(login): fact for word, fact in zip(MADE, values, strict=False)}


def links(binding: Binding) -> Mapping[str, str]:
    """Path → target: what the host itself makes with the account, and takes away with it."""
    if binding.uid is None:
        return {}
    mount = _mount_path(binding.login)
    folder, _, unit = mount.rpartition("/")
    return {f"{folder}/local-fs.target.wants/{unit}": mount}


def left_paths(binding: Binding) -> tuple[str, ...]:
    """Everything of its own besides home, scratch, keys and what the control machine reads."""
    if binding.uid is None:
        return ()
    uid, login = binding.uid, binding.login
    return (
        _mount_path(login),
        *(layout.instance(top).of(login) for top in layout.PRIVATE),
        layout.RUNTIME_SLICE.of(uid),
        *(place.of(uid) for place in (layout.SLICE, layout.USER_MANAGER)),
        layout.DEVICES.of(uid),
        layout.LOOPBACK.of(uid),
        # Written by the host, which alone knows how large its disks are.
        layout.QUOTA.of(uid),
    )


def left_facts(binding: Binding) -> tuple[str, ...]:
    words = (word for word in MADE if word is not TenantWord.LOGIN)
    return tuple(word.of(binding.login) for word in words) if binding.uid is not None else ()


def _slice_path(uid: int) -> str:
    return f"{layout.SLICE.of(uid)}/{layout.DROP_IN}"


def _user_manager_path(uid: int) -> str:
    return f"{layout.USER_MANAGER.of(uid)}/{layout.DROP_IN}"


def _mount_path(login: str) -> str:
    return layout.mount_unit(layout.instance("shm").of(login))


def _session_folder(login: str) -> str:
    return layout.instance("session").of(login)
