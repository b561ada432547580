"""slice.topology_discover: what slots could be made of, for people to read and approve.

Devices are named by what stays with them: UUIDs, PCI addresses, by-id names. What each of them
hangs on tells which are near to one another.
"""

from __future__ import annotations

import os
import re
from typing import Mapping, Optional

from .card_errors import is_error
from .cards import inquiry
from .machine import NODES, PCI_DEVICES, cards_on_bus, numa_nodes, read_nics, read_numa
from .probes import Facts, ProbeError, Probes, printable
from .uplinks import ways_out

CPUS = "sys/devices/system/cpu"
ON_BUS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
HOST_KEY = re.compile(r"ssh_host_[a-z0-9]+_key\.pub")
FILLERS = re.compile(
    r"(0*|none|to be filled by o\.?e\.?m\.?|(not|default|system)\b.*)", re.IGNORECASE
)
"""What makers leave in the place of a serial number."""


def read_topology(probes: Probes) -> Facts:
    """The facts of model.host.topology.Topology; what could not be read is left out, and noted."""
    hardware = probes.hardware
    found = {
        "serial": hardware.ask("serial", read_serial),
        "kernel": probes.ask("kernel", lambda p: p.text("proc/sys/kernel/osrelease").strip()),
        "hostKeys": probes.ask("hostKeys", read_host_keys),
        "numaNodes": hardware.ask("numaNodes", read_numa_nodes),
        "cards": probes.ask("cards", read_cards),
        "drives": probes.ask("drives", read_drives),
        "nics": probes.ask("adapters", read_adapters),
    }
    return {key: value for key, value in found.items() if value is not None}


def known(facts: Facts) -> Facts:
    return {key: value for key, value in facts.items() if value is not None}


def read_serial(hardware: Probes) -> Optional[str]:
    """Of the machine; a virtual one, or one whose maker left it out, has none."""
    try:
        serial = hardware.text("sys/class/dmi/id/product_serial").strip()
    except FileNotFoundError:
        return None
    return None if FILLERS.fullmatch(serial) else printable(serial)


def read_host_keys(probes: Probes) -> list[str]:
    """Type and key of each public key that sshd has, without its comment."""
    names = sorted(filter(HOST_KEY.fullmatch, os.listdir(probes.at("etc/ssh"))))
    lines = [probes.text("etc/ssh", name).split() for name in names]
    return [printable(" ".join(words[:2])) for words in lines if len(words) >= 2]


def read_numa_nodes(hardware: Probes) -> list[Facts]:
    """Whole cores and memory; raises ProbeError where the threads of a core are not known."""
    return [
        {"number": node, "cores": cores_of(hardware, node), "memoryMiB": memory_of(hardware, node)}
        for node in numa_nodes(hardware)
    ]


def cores_of(hardware: Probes, node: int) -> list[str]:
    """Each core as its threads, `0,112`, in order of the first one."""
    cpus = cpu_numbers(hardware.text(NODES, f"node{node}", "cpulist"))
    cores = {
        tuple(cpu_numbers(hardware.text(CPUS, f"cpu{cpu}", "topology/thread_siblings_list")))
        for cpu in cpus
    }
    if sorted(cpu for core in cores for cpu in core) != cpus:
        raise ProbeError(f"NUMA node {node} holds parts of cores")
    return [",".join(map(str, core)) for core in sorted(cores)]


def cpu_numbers(text: str) -> list[int]:
    """`0-2,8` as numbers; raises ValueError for anything else."""
    numbers: list[int] = []
    for part in text.strip().split(",") if text.strip() else ():
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return sorted(numbers)


def memory_of(hardware: Probes, node: int) -> int:
    text = hardware.text(NODES, f"node{node}", "meminfo")
    match = re.search(r"MemTotal:\s+(\d+) kB$", text, re.MULTILINE)
    if match is None:
        raise ProbeError(f"meminfo of NUMA node {node} has no MemTotal")
    return int(match.group(1)) // 1024


# Cards.


def read_cards(probes: Probes) -> list[Facts]:
    """Every card on the bus, also one that its driver does not answer for."""
    hardware, told = probes.hardware, probes.ask("cards", read_details) or {}
    return [{**place_of(hardware, one), **told.get(one, {})} for one in cards_on_bus(hardware)]


def read_details(probes: Probes) -> dict[str, Facts]:
    """By PCI address, what only the long answer of nvidia-smi tells."""
    return {address: details_of(card.told) for address, card in inquiry(probes).log.items()}


def details_of(told: Mapping[str, str]) -> Facts:
    minor = said(told, "minor_number")
    return known(
        {
            "uuid": said(told, "uuid"),
            "serial": said(told, "serial"),
            "mig": said(told, "mig_mode/current_mig"),
            "minor": int(minor) if minor and minor.isdigit() else None,
        }
    )


def said(told: Mapping[str, str], place: str) -> Optional[str]:
    """The driver's word, `N/A` with it; `[Unknown Error]` and its like are none."""
    text = told.get(place, "")
    return printable(text) if text and not text.startswith("[") and not is_error(text) else None


# What lies beside the cards.


def place_of(hardware: Probes, address: str) -> Facts:
    """Where a device is: the bridges that lead to it, and its NUMA node."""
    return known(
        {
            "pciAddress": address,
            "pciPath": ON_BUS.findall(os.path.realpath(hardware.at(PCI_DEVICES, address))),
            "numa": read_numa(hardware, address),
        }
    )


def read_drives(probes: Probes) -> list[Facts]:
    """Whole NVMe drives, by the by-id name that says least about their maker."""
    hardware, by_id = probes.hardware, "dev/disk/by-id"
    names: dict[str, list[str]] = {}
    for name in os.listdir(hardware.at(by_id)):
        if name.startswith("nvme-") and not re.search(r"-part\d+$", name):
            block = os.path.basename(os.readlink(hardware.at(by_id, name)))
            names.setdefault(block, []).append(name)
    return [
        {"id": printable(min(known_as, key=by_number)), **drive_facts(probes, block)}
        for block, known_as in sorted(names.items())
    ]


def by_number(name: str) -> tuple[bool, str]:
    return not name.startswith("nvme-eui."), name


def drive_facts(probes: Probes, block: str) -> Facts:
    hardware, folder = probes.hardware, f"sys/block/{block}"
    on_bus = ON_BUS.findall(controller_of(hardware, os.path.realpath(hardware.at(folder))))
    return {
        **(place_of(hardware, on_bus[-1]) if on_bus else {}),
        "sizeGiB": int(hardware.text(folder, "size")) * 512 >> 30,
        "holds": held_by(probes, folder, block),
    }


def controller_of(hardware: Probes, block: str) -> str:
    """With multipathing a drive hangs below its subsystem, which names its controllers."""
    subsystem = os.path.dirname(block)
    if "/nvme-subsystem/" not in block:
        return block
    names = [name for name in os.listdir(subsystem) if re.fullmatch(r"nvme\d+", name)]
    return os.path.realpath(os.path.join(subsystem, names[0])) if len(names) == 1 else ""


def held_by(probes: Probes, folder: str, block: str) -> str:
    """Why a drive is not free, in a few words; empty if nothing speaks against it."""
    hardware = probes.hardware
    inside = os.listdir(hardware.at(folder))
    if any(name.startswith(f"{block}p") for name in inside):
        return "partitions"
    if "holders" in inside and (holders := os.listdir(hardware.at(folder, "holders"))):
        return printable(f"part of {min(holders)}")
    mounts = [line.split(" ") for line in probes.text("proc/self/mounts").splitlines()]
    if places := [words[1] for words in mounts if words[0] == f"/dev/{block}"]:
        return printable(f"mounted at {places[0]}")
    return file_system_on(hardware, folder)


def file_system_on(hardware: Probes, folder: str) -> str:
    """As udev found it; where it keeps no records, nobody knows of any."""
    try:
        records = hardware.text("run/udev/data", "b" + hardware.text(folder, "dev").strip())
    except FileNotFoundError:
        return ""
    match = re.search(r"^E:ID_(?:FS|PART_TABLE)_TYPE=(\S+)$", records, re.MULTILINE)
    return printable(match.group(1)) if match else ""


def read_adapters(probes: Probes) -> list[Facts]:
    """Network cards; `holds` says what the host itself does with one."""
    hardware = probes.hardware
    uplinks = ways_out(probes)
    adapters = []
    for address, name in read_nics(hardware).items():
        device = hardware.at(PCI_DEVICES, address)
        net = os.path.join(device, "net")
        ports = sorted(os.listdir(net)) if os.path.isdir(net) else []
        joined = [p for p in ports if os.path.lexists(os.path.join(net, p, "master"))]
        rdma = os.path.isdir(os.path.join(device, "infiniband"))
        held = "part of a bond or bridge" if joined else ""
        if uplinks & set(ports):
            held = "the host's way out"
        adapters.append({**place_of(hardware, address), "name": name, "rdma": rdma, "holds": held})
    return adapters
