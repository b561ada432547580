"""The stand-in: a folder that answers in place of a host, for isolation `directory`.

Made for the demo and the starter fleet alone, labelled wherever a format has room for a label,
and never laid into a folder that holds anything else.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from reconciler.kinds.node.spec import NodeSpec, Slot
from reconciler.model.canonical import text_digest
from reconciler.model.host.cpus import format_cpus, parse_cpus
from reconciler.model.problem import refuse
from reconciler.model.records import dataclass
from reconciler.model.spec.resource import Resource

LABEL = "# TEST STAND-IN, not a GPU"
MARK = "etc/gpuaas-standin"
DRIVER = "580.105.08-standin"
IDLE_MIB = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """`first_only`: what changes in its life (processes, boot) is not put back."""

    text: str
    mode: int = 0o644
    first_only: bool = False


def lay(root: Path, node: Resource[NodeSpec], templates: Mapping[str, str]) -> None:
    """Make or renew the stand-in of `node` at `root`.

    Raises ProblemError `path_unsafe` if there is a folder that is no stand-in.
    """
    if root.is_symlink() or (root.exists() and not (root / MARK).is_dir() and any(root.iterdir())):
        raise refuse(
            "path_unsafe",
            f"{root} is there and is no stand-in of gpuaas",
            f"move it away, or give node {node.ref.name} another root",
        )
    (root / MARK).mkdir(parents=True, exist_ok=True)
    for path, file in _files(node, templates).items():
        _write(root / path, file)
    for path, target in _links(node.spec):
        _link(root / path, target)


def _files(node: Resource[NodeSpec], templates: Mapping[str, str]) -> Mapping[str, _File]:
    spec: NodeSpec = node.spec
    return {
        "README.txt": _File(text=templates["standin/README.txt"]),
        "usr/bin/nvidia-smi": _File(text=templates["standin/nvidia-smi.sh"], mode=0o755),
        f"{MARK}/gpus.csv": _File(text=_cards(spec)),
        f"{MARK}/apps.csv": _File(text=f"{LABEL}\ngpu_uuid, pid, process_name\n", first_only=True),
        "sys/module/nvidia/version": _File(text=f"{DRIVER}\n"),
        "etc/os-release": _File(text=templates["standin/os-release"]),
        "etc/machine-id": _File(text=_machine_id(node) + "\n"),
        "proc/sys/kernel/random/boot_id": _File(
            text=f"{uuid.UUID(_identity(node, 'boot'))}\n", first_only=True
        ),
        **dict(_topology(spec)),
    }


def _cards(spec: NodeSpec) -> str:
    rows = [
        LABEL,
        "index, uuid, pci.bus_id, name, memory.total [MiB], memory.used [MiB], driver_version",
    ]
    for index, slot in enumerate(sorted(spec.slots, key=lambda slot: slot.gpu.pci_address)):
        domain, rest = slot.gpu.pci_address.split(":", 1)
        rows.append(
            f"{index}, {slot.gpu.uuid}, {domain.zfill(8)}:{rest.upper()}, {slot.gpu.model}, "
            f"{slot.gpu.memory_mib} MiB, {IDLE_MIB} MiB, {DRIVER}"
        )
    return "\n".join(rows) + "\n"


def _topology(spec: NodeSpec) -> Iterator[tuple[str, _File]]:
    """sysfs and procfs: these formats have no room for a label."""
    gib = sum(slot.memory_gib for slot in spec.slots) + spec.reserve.memory_gib
    yield "proc/meminfo", _File(text=f"MemTotal:       {gib * 1024 * 1024} kB\n")
    numas = _cpus_by_numa(spec)
    everything = frozenset().union(*numas.values())
    yield "sys/devices/system/cpu/online", _File(text=format_cpus(everything) + "\n")
    for numa, cpus in sorted(numas.items()):
        folder = f"sys/devices/system/node/node{numa}"
        share = gib * 1024 * 1024 // len(numas)
        yield f"{folder}/cpulist", _File(text=format_cpus(cpus) + "\n")
        yield f"{folder}/meminfo", _File(text=f"Node {numa} MemTotal:       {share} kB\n")
    for slot in spec.slots:
        yield from _devices(slot)


def _devices(slot: Slot) -> Iterator[tuple[str, _File]]:
    devices = {slot.gpu.pci_address: ("0x10de", "0x030200")}
    if slot.nic is not None:
        devices[slot.nic.pci_address] = ("0x15b3", "0x020700")
    for address, (vendor, sort) in devices.items():
        folder = f"sys/bus/pci/devices/{address}"
        yield f"{folder}/vendor", _File(text=f"{vendor}\n")
        yield f"{folder}/class", _File(text=f"{sort}\n")
        yield f"{folder}/numa_node", _File(text=f"{slot.numa}\n")
    if slot.nic is not None and slot.nic.name:
        sort = "infiniband" if slot.nic.rdma else "net"
        folder = f"sys/bus/pci/devices/{slot.nic.pci_address}/{sort}/{slot.nic.name}"
        yield f"{folder}/uevent", _File(text="")
    if slot.nvme is not None:
        yield f"dev/{_disk(slot)}", _File(text=f"{LABEL}\n")


def _links(spec: NodeSpec) -> Iterator[tuple[str, str]]:
    for slot in spec.slots:
        if slot.nvme is not None:
            yield f"dev/disk/by-id/{slot.nvme.id}", f"../../{_disk(slot)}"
        if slot.nic is not None and slot.nic.name:
            sort = "infiniband" if slot.nic.rdma else "net"
            target = f"../../../bus/pci/devices/{slot.nic.pci_address}"
            yield f"sys/class/{sort}/{slot.nic.name}/device", target


def _disk(slot: Slot) -> str:
    return f"nvme-of-{slot.name}"


def _cpus_by_numa(spec: NodeSpec) -> dict[int, frozenset[int]]:
    """CPUs kept for the host are the first of their socket: they belong to the next slot's."""
    owner = {cpu: slot.numa for slot in spec.slots for cpu in parse_cpus(slot.cpus)}
    for cpu in parse_cpus(spec.reserve.cpus) - set(owner):
        owner[cpu] = owner[min((one for one in owner if one > cpu), default=max(owner))]
    return {
        numa: frozenset(cpu for cpu, of in owner.items() if of == numa)
        for numa in set(owner.values())
    }


def _machine_id(node: Resource[NodeSpec]) -> str:
    """What the spec says of it, where it says anything."""
    spec: NodeSpec = node.spec
    return spec.identity.machine_id if spec.identity else _identity(node, "machine")


def _identity(node: Resource[NodeSpec], what: str) -> str:
    """32 hex digits, the same for the same node each time."""
    return text_digest(f"gpuaas stand-in {what} {node.ref.name}").removeprefix("sha256:")[:32]


def _write(path: Path, file: _File) -> None:
    if file.first_only and path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.text, encoding="utf-8")
    path.chmod(file.mode)


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()
    os.symlink(target, path)
