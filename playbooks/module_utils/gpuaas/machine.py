"""The machine: what it runs and its hardware, from procfs, sysfs and udev's names."""

from __future__ import annotations

import os
import re
from typing import Optional

from .probes import ProbeError, Probes, printable

NODES = "sys/devices/system/node"
PCI_DEVICES = "sys/bus/pci/devices"
NVIDIA, DISPLAY = "0x10de", ("0x0300", "0x0302")


def read_boot_id(probes: Probes) -> str:
    """Of this machine, unless the root folder tells one of its own."""
    own = probes.at("proc/sys/kernel/random/boot_id")
    with open(own if os.path.exists(own) else "/proc/sys/kernel/random/boot_id") as file:
        return file.read(100).strip()


def read_os(probes: Probes) -> str:
    """As families name it: `debian-12`."""
    pairs = (line.partition("=") for line in probes.text("etc/os-release").splitlines())
    values = {key: value.strip("\"'") for key, _, value in pairs}
    return "-".join(values[key] for key in ("ID", "VERSION_ID") if values.get(key))


def numa_nodes(probes: Probes) -> list[int]:
    names = os.listdir(probes.at(NODES))
    return sorted(int(name[4:]) for name in names if re.fullmatch(r"node\d+", name))


def read_numa(probes: Probes, address: str) -> Optional[int]:
    """The NUMA node of a PCI device; where the kernel says -1, the only one there is, if so."""
    node = int(probes.text(PCI_DEVICES, address, "numa_node"))
    if node >= 0:
        return node
    nodes = numa_nodes(probes)
    return nodes[0] if len(nodes) == 1 else None


def cards_on_bus(hardware: Probes) -> list[str]:
    """PCI addresses of NVIDIA's cards, whether or not their driver answers for them."""
    return [
        address
        for address in sorted(os.listdir(hardware.at(PCI_DEVICES)))
        if hardware.text(PCI_DEVICES, address, "vendor").strip() == NVIDIA
        and hardware.text(PCI_DEVICES, address, "class")[:6] in DISPLAY
    ]


def read_cpus(probes: Probes) -> str:
    lists = [probes.text(NODES, f"node{n}", "cpulist").strip() for n in numa_nodes(probes)]
    if not any(lists):
        raise ProbeError("sysfs names no CPU")
    return ",".join(part for part in lists if part)


def read_memory(probes: Probes) -> int:
    match = re.search(r"^MemTotal:\s+(\d+) kB$", probes.text("proc/meminfo"), re.MULTILINE)
    if match is None:
        raise ProbeError("proc/meminfo has no MemTotal")
    return int(match.group(1)) // 1024


def read_nvmes(probes: Probes) -> list[str]:
    """Whole drives by their by-id names."""
    names = os.listdir(probes.at("dev/disk/by-id"))
    drives = [n for n in names if n.startswith("nvme-") and not re.search(r"-part\d+$", n)]
    return sorted(printable(name) for name in drives)


def read_nics(probes: Probes) -> dict[str, str]:
    """PCI address → name; the RDMA device's name where there is one."""
    devices = probes.at(PCI_DEVICES)
    nics = {}
    for address in sorted(os.listdir(devices)):
        for kind in ("infiniband", "net"):
            folder = os.path.join(devices, address, kind)
            if os.path.isdir(folder) and address not in nics:
                nics[address] = printable(min(os.listdir(folder), default=kind))
    return nics
