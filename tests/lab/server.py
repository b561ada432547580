"""What every lab host seems to be made of: a server with eight GPUs on two sockets.

Nothing of it exists. Drives, cards and network adapters stand in a tree like the kernel's below
/etc/gpuaas-standin/root, since /sys and /proc of a lab host are those of the machine it runs on;
/usr/bin/nvidia-smi answers for the cards. Whoever reads either says that the source is a stand-in.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler import shipped
from reconciler.operations.node.directory_host import DRIVER, IDLE_MIB, LABEL, MARK

TREE = f"{MARK}/root"

MODEL, MEMORY_MIB = "NVIDIA H100 80GB HBM3", 81559
CORES, SOCKETS = 56, 2
SOCKET_KB = 1056706560
DATA_SECTORS, SYSTEM_SECTORS = 7501476528, 1875385008

GPU_BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
MINORS = (3, 0, 2, 1, 7, 4, 6, 5)
"""By index, as a board numbers them: whoever takes an index for a minor meets the wrong card."""

UVM_MAJOR = 505
"""The kernel gives this driver any free one; that of the cards is 195 everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """`path` is where it hangs, from its root port down; `inside` are files in its folder."""

    path: tuple[str, ...]
    numa: int
    vendor: str
    sort: str
    inside: Mapping[str, str]

    @property
    def address(self) -> str:
        return self.path[-1]

    @property
    def folder(self) -> str:
        return f"sys/devices/pci0000:{self.path[0][5:7]}/{'/'.join(self.path)}"


def every_host() -> Mapping[str, str]:
    """Text by path: all that does not differ from host to host."""
    return {
        "usr/bin/nvidia-smi": shipped.templates()["standin/nvidia-smi.sh"],
        "etc/tmpfiles.d/gpuaas-standin.conf": _device_nodes(),
        f"{MARK}/apps.csv": f"{LABEL}\ngpu_uuid, pid, process_name\n",
        **{f"{TREE}/{path}": f"{text}\n" for path, text in _processors()},
        **{f"{TREE}/{path}": f"{text}\n" for path, text in _pci_files()},
    }


def links_of_every_host() -> Mapping[str, str]:
    """Target by path."""
    return {f"{TREE}/{path}": target for path, target in _pci_links()}


def one_host(name: str) -> Mapping[str, str]:
    """The cards of the host `name`: the same ones whenever it is wiped."""
    files = {f"{MARK}/gpus.csv": _cards(name)}
    for number in range(len(GPU_BUSES) + 2):
        files[f"{TREE}/{_drive_folder(number)}/serial"] = f"{_serial(name, number)}\n"
    return files


def links_of_one_host(name: str) -> Mapping[str, str]:
    """A drive has a name by its number and one by its maker; partitions have both too."""
    links = {}
    for number in range(len(GPU_BUSES) + 2):
        eui = f"nvme-eui.{_digits(name, 'drive', number)[:16]}"
        for known_as in (eui, f"nvme-SAMSUNG_MZQL23T8HCLS-00A07_{_serial(name, number)}"):
            links[f"{TREE}/dev/disk/by-id/{known_as}"] = f"../../nvme{number}n1"
            if number >= len(GPU_BUSES):
                links[f"{TREE}/dev/disk/by-id/{known_as}-part1"] = f"../../nvme{number}n1p1"
    return links


def gpu_uuid(host: str, index: int) -> str:
    return f"GPU-{uuid.UUID(_digits(host, 'gpu', index))}"


def minor(index: int) -> int:
    return MINORS[index]


# Cards.


def _cards(host: str) -> str:
    rows = [
        LABEL,
        "index, uuid, pci.bus_id, name, memory.total [MiB], memory.used [MiB], driver_version,"
        " minor_number, mig.mode.current, fabric.state, fabric.status",
    ]
    for index, bus in enumerate(GPU_BUSES):
        rows.append(
            f"{index}, {gpu_uuid(host, index)}, 00000000:{bus:02X}:00.0, {MODEL},"
            f" {MEMORY_MIB} MiB, {IDLE_MIB} MiB, {DRIVER}, {MINORS[index]}, Disabled,"
            " Completed, Success"
        )
    return "\n".join(rows) + "\n"


def _device_nodes() -> str:
    """Opening one of them is answered ENXIO, as there is no driver behind them."""
    nodes = {f"nvidia{minor}": (195, minor) for minor in sorted(MINORS)}
    nodes |= {"nvidiactl": (195, 255), "nvidia-modeset": (195, 254)}
    nodes |= {"nvidia-uvm": (UVM_MAJOR, 0), "nvidia-uvm-tools": (UVM_MAJOR, 1)}
    lines = [f"c /dev/{name} 0666 root root - {a}:{b}" for name, (a, b) in nodes.items()]
    return "\n".join([LABEL, *lines]) + "\n"


# Processors and memory.


def _processors() -> Iterator[tuple[str, str]]:
    total = CORES * SOCKETS
    yield "proc/meminfo", f"MemTotal:       {SOCKET_KB * SOCKETS} kB"
    yield "sys/devices/system/cpu/online", f"0-{2 * total - 1}"
    yield "sys/devices/system/node/online", f"0-{SOCKETS - 1}"
    for socket in range(SOCKETS):
        folder = f"sys/devices/system/node/node{socket}"
        yield f"{folder}/cpulist", _cpus_of(socket)
        yield f"{folder}/meminfo", f"Node {socket} MemTotal:       {SOCKET_KB} kB"
    for core in range(total):
        for cpu in (core, core + total):
            folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
            yield f"{folder}/thread_siblings_list", f"{core},{core + total}"
            yield f"{folder}/core_id", str(core % CORES)
            yield f"{folder}/physical_package_id", str(core // CORES)


def _cpus_of(socket: int) -> str:
    """Second threads are numbered after all first ones, as Linux does."""
    first, total = socket * CORES, CORES * SOCKETS
    last = first + CORES - 1
    return f"{first}-{last},{first + total}-{last + total}"


# Devices on PCI.


def _devices() -> Iterator[Device]:
    for number, bus in enumerate(GPU_BUSES):
        yield from _behind_one_switch(number, bus)
    for number in (8, 9):
        yield _nvme(number, (f"0000:00:0{number - 7}.0", f"0000:0{number - 5}:00.0"), 0)
    for port in (0, 1):
        inside = {f"net/ens7f{port}np{port}/type": "1"}
        path = ("0000:00:05.0", f"0000:07:00.{port}")
        yield Device(path=path, numa=0, vendor="0x8086", sort="0x020000", inside=inside)
    path = ("0000:00:06.0", "0000:08:00.0", "0000:09:00.0")
    yield Device(path=path, numa=0, vendor="0x1a03", sort="0x030000", inside={})
    for switch in range(4):
        path = ("0000:bb:01.0", f"0000:{0xBC + switch:02x}:00.0")
        yield Device(path=path, numa=1, vendor="0x10de", sort="0x068000", inside={})


def _behind_one_switch(number: int, bus: int) -> Iterator[Device]:
    """A card, with the network adapter and the drive that lie beside it."""
    numa = number * SOCKETS // len(GPU_BUSES)
    up = (f"0000:{bus - 6:02x}:01.0", f"0000:{bus - 5:02x}:00.0")
    port = f"0000:{bus - 4:02x}"
    adapter = {f"infiniband/mlx5_{number}/node_type": "1: CA", f"net/ibs{number}/type": "32"}
    path = (*up, f"{port}:00.0", f"0000:{bus - 3:02x}:00.0")
    yield Device(path=path, numa=numa, vendor="0x15b3", sort="0x020700", inside=adapter)
    yield _nvme(number, (*up, f"{port}:01.0", f"0000:{bus - 2:02x}:00.0"), numa)
    path = (*up, f"{port}:02.0", f"0000:{bus:02x}:00.0")
    yield Device(path=path, numa=numa, vendor="0x10de", sort="0x030200", inside={})


def _nvme(number: int, path: tuple[str, ...], numa: int) -> Device:
    sectors = DATA_SECTORS if number < len(GPU_BUSES) else SYSTEM_SECTORS
    drive = f"nvme/nvme{number}"
    inside = {
        f"{drive}/address": path[-1],
        f"{drive}/numa_node": str(numa),
        f"{drive}/model": "SAMSUNG MZQL23T8HCLS-00A07",
        f"{drive}/nvme{number}n1/size": str(sectors),
    }
    if number >= len(GPU_BUSES):
        inside[f"{drive}/nvme{number}n1/nvme{number}n1p1/partition"] = "1"
    return Device(path=path, numa=numa, vendor="0x144d", sort="0x010802", inside=inside)


def _drive_folder(number: int) -> str:
    return next(
        f"{device.folder}/nvme/nvme{number}"
        for device in _devices()
        if f"nvme/nvme{number}/model" in device.inside
    )


def _pci_files() -> Iterator[tuple[str, str]]:
    for device in _devices():
        yield f"{device.folder}/vendor", device.vendor
        yield f"{device.folder}/class", device.sort
        yield f"{device.folder}/numa_node", str(device.numa)
        yield f"{device.folder}/local_cpulist", _cpus_of(device.numa)
        for name, text in device.inside.items():
            yield f"{device.folder}/{name}", text
        for depth in range(1, len(device.path)):
            bridge = "/".join(device.folder.split("/")[: 3 + depth])
            yield f"{bridge}/vendor", "0x1000" if depth > 1 else "0x8086"
            yield f"{bridge}/class", "0x060400"
            yield f"{bridge}/numa_node", str(device.numa)
    for number in range(len(GPU_BUSES) + 2):
        yield f"dev/nvme{number}n1", LABEL


def _pci_links() -> Iterator[tuple[str, str]]:
    """The short ways that the kernel offers to each device."""
    for device in _devices():
        parts = device.folder.split("/")
        for depth in range(4, len(parts) + 1):
            here = "/".join(parts[:depth])
            yield f"sys/bus/pci/devices/{parts[depth - 1]}", f"../../../../{here}"
        for sort in ("nvme", "infiniband", "net"):
            for name in {path.split("/")[1] for path in device.inside if path.startswith(sort)}:
                yield f"sys/class/{sort}/{name}", f"../../../{device.folder}/{sort}/{name}"
                yield f"{device.folder}/{sort}/{name}/device", f"../../../{device.address}"
                if sort == "nvme":
                    yield f"sys/block/{name}n1", f"../../{device.folder}/nvme/{name}/{name}n1"


def _serial(host: str, number: int) -> str:
    return "S64HNE0" + _digits(host, "serial", number)[:7].upper()


def _digits(host: str, what: str, number: int) -> str:
    """32 hex digits, the same for the same thing each time."""
    return hashlib.sha256(f"gpuaas lab {host} {what} {number}".encode()).hexdigest()[:32]
