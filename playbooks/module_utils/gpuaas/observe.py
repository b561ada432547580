"""node.observe: what a host says about itself, as one JSON object on stdout.

Self-contained on purpose, so that a plain pipe, an SSH connection or a play can carry it.
A probe that fails makes its fact unknown and says so; it never makes it empty.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from functools import partial
from typing import Any, Callable, Optional, TypeVar

PROBE_VERSION = 1
MAX_PATHS = 20_000
MAX_DEPTH = 16
MAX_FILE = 8 * 1024 * 1024
MAX_SIZED = 50_000
MAX_SECONDS = 20

SMI_FIELDS = "index,uuid,pci.bus_id,name,memory.total,memory.used,driver_version"
SMI_FORMAT = "--format=csv,noheader,nounits"
UUID = re.compile(r"GPU-[0-9A-Za-z-]{8,64}")
PCI_ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
LOST_CARD = re.compile(r"GPU ?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

T = TypeVar("T")
Facts = dict[str, Any]


class ProbeError(Exception):
    """A probe that did not answer, in words."""


class Probes:
    """Runs probes below one root and keeps what went wrong with them."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.problems: list[dict[str, str]] = []

    def at(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def text(self, *parts: str) -> str:
        with open(self.at(*parts), encoding="utf-8", errors="replace") as file:
            return file.read(1_000_000)

    def note(self, probe: str, message: str) -> None:
        self.problems.append({"probe": probe, "message": printable(message)[:300]})

    def ask(self, probe: str, read: Callable[[Probes], T]) -> Optional[T]:
        """The probe's answer, or None and a note."""
        try:
            return read(self)
        except OSError as error:
            self.note(probe, f"{error.filename}: {error.strerror}")
        except (ProbeError, ValueError) as error:
            self.note(probe, str(error))
        return None


def observe(root: str) -> Facts:
    """Everything asked of a host, as NodeFacts in JSON; facts that are unknown are left out."""
    probes = Probes(root)
    gpus = probes.ask("gpus", read_gpus)
    facts = {
        "source": source(probes, gpus),
        "machineId": probes.ask("machineId", lambda p: p.text("etc/machine-id").strip()),
        "bootId": probes.ask("bootId", read_boot_id),
        "os": probes.ask("os", read_os),
        "cpus": probes.ask("cpus", read_cpus),
        "memoryMiB": probes.ask("memory", read_memory),
        "gpus": gpus,
        "nvmes": probes.ask("nvmes", read_nvmes),
        "nics": probes.ask("nics", read_nics),
        "paths": probes.ask("paths", read_paths),
        "descriptors": probes.ask("descriptors", read_descriptors),
        "sizes": probes.ask("sizes", read_sizes),
        "problems": probes.problems,
        "probeVersion": PROBE_VERSION,
    }
    return {key: value for key, value in facts.items() if value is not None}


def source(probes: Probes, gpus: Optional[list[Facts]]) -> str:
    """`standin` for a stand-in topology, which must never pass for a real host."""
    marked = os.path.lexists(probes.at("etc/gpuaas-standin"))
    drivers = [card.get("driver") or "" for card in gpus or ()]
    return "standin" if marked or any(d.endswith("-standin") for d in drivers) else "host"


# Cards.


def read_gpus(probes: Probes) -> list[Facts]:
    """Cards by UUID, never by index; a lost card is noted and is not among them."""
    cards = []
    for line in nvidia_smi(probes, f"--query-gpu={SMI_FIELDS}"):
        if UUID.search(line) is None and (LOST_CARD.search(line) or "[" in line):
            probes.note("gpus", f"a card does not answer: {line}")
        else:
            cards.append(read_card(probes, line))
    if len({card["uuid"] for card in cards}) != len(cards):
        raise ProbeError("nvidia-smi names one card twice")
    if not cards:
        raise ProbeError("nvidia-smi names no card")
    processes = probes.ask("processes", lambda p: read_processes(p, {c["uuid"] for c in cards}))
    if processes is not None:
        for card in cards:
            card["processes"] = processes[card["uuid"]]
    return sorted(cards, key=lambda card: str(card["pciAddress"]))


def read_card(probes: Probes, line: str) -> Facts:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != len(SMI_FIELDS.split(",")) or not UUID.fullmatch(fields[1]):
        raise ProbeError(f"nvidia-smi answers what it should not: {line}")
    _, uuid, bus, model, memory, used, driver = fields
    card = {
        "uuid": uuid,
        "pciAddress": pci_address(bus),
        "model": model,
        "memoryMiB": number(memory),
        "memoryUsedMiB": number(used),
        "driver": None if driver.startswith("[") else driver,
        "numa": probes.ask("numa", lambda p: read_numa(p, pci_address(bus))),
    }
    return {key: value for key, value in card.items() if value is not None}


def read_processes(probes: Probes, uuids: set[str]) -> dict[str, list[int]]:
    """Compute processes by card; one that cannot be put to a card makes all of them unknown."""
    found: dict[str, list[int]] = {uuid: [] for uuid in uuids}
    for line in nvidia_smi(probes, "--query-compute-apps=gpu_uuid,pid"):
        uuid, _, pid = (part.strip() for part in line.partition(","))
        if uuid not in found or not pid.isdigit():
            raise ProbeError(f"a process on something that is no known card: {line}")
        found[uuid].append(int(pid))
    return {uuid: sorted(pids) for uuid, pids in found.items()}


def nvidia_smi(probes: Probes, query: str) -> list[str]:
    """The lines of an answer; anything but success is no answer."""
    if probes.root == "/":
        program = shutil.which("nvidia-smi", path=SAFE_PATH)
    else:
        program = probes.at("usr/bin/nvidia-smi")
    if program is None or not os.path.exists(program):
        raise ProbeError("nvidia-smi is not there")
    try:
        done = subprocess.run(
            [program, query, SMI_FORMAT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=MAX_SECONDS,
            env={"PATH": SAFE_PATH, "LC_ALL": "C"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"nvidia-smi did not answer within {MAX_SECONDS} s") from None
    lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    lost = any(LOST_CARD.search(line) for line in lines)
    if done.returncode != 0 and not lost:
        said = " ".join([*lines, done.stderr.decode("utf-8", "replace")])
        raise ProbeError(f"nvidia-smi ended with {done.returncode}: {said}")
    if any(line.startswith("No devices were found") for line in lines):
        raise ProbeError("nvidia-smi says: No devices were found")
    return lines


def pci_address(text: str) -> str:
    """As sysfs writes it: `0000:0a:00.0`, where nvidia-smi says `00000000:0A:00.0`."""
    match = PCI_ADDRESS.fullmatch(text)
    if match is None:
        raise ProbeError(f"no PCI address: {text}")
    return f"{int(match.group(1), 16):04x}:{match.group(2).lower()}"


def number(text: str) -> Optional[int]:
    """`[N/A]`, `[Unknown Error]` and the like are unknown."""
    return int(text) if text.isascii() and text.isdigit() else None


def read_numa(probes: Probes, address: str) -> Optional[int]:
    """The kernel's -1 says that it does not know."""
    node = int(probes.text("sys/bus/pci/devices", address, "numa_node"))
    return node if node >= 0 else None


# The machine.


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


def read_cpus(probes: Probes) -> str:
    nodes = [name for name in os.listdir(probes.at(NODES)) if re.fullmatch(r"node\d+", name)]
    lists = [
        probes.text(NODES, node, "cpulist").strip()
        for node in sorted(nodes, key=lambda name: int(name[4:]))
    ]
    if not any(lists):
        raise ProbeError("sysfs names no CPU")
    return ",".join(part for part in lists if part)


NODES = "sys/devices/system/node"


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
    devices = probes.at("sys/bus/pci/devices")
    nics = {}
    for address in sorted(os.listdir(devices)):
        for kind in ("infiniband", "net"):
            folder = os.path.join(devices, address, kind)
            if os.path.isdir(folder) and address not in nics:
                nics[address] = printable(min(os.listdir(folder), default=kind))
    return nics


# What the platform keeps on the host.


def read_paths(probes: Probes) -> dict[str, str]:
    """Everything below /etc/gpuaas, and what stands directly in the folders of tenants."""
    facts: dict[str, str] = {}
    for place, depth in (("etc/gpuaas", MAX_DEPTH), ("home", 0), ("var/lib/gpuaas/scratch", 0)):
        folder = open_below(probes.root, place)
        if folder is not None:
            try:
                list_folder(folder, "/" + place, depth, facts)
            finally:
                os.close(folder)
    return facts


def list_folder(folder: int, shown: str, depth: int, facts: dict[str, str]) -> None:
    for name in sorted(os.listdir(folder)):
        path = f"{shown}/{printable(name)}"
        try:
            facts[path] = fact = path_fact(folder, name)
        except FileNotFoundError:
            continue
        if len(facts) > MAX_PATHS:
            raise ProbeError(f"more than {MAX_PATHS} paths")
        if depth and fact.startswith("dir "):
            inner = os.open(name, OPEN_FOLDER, dir_fd=folder)
            try:
                list_folder(inner, path, depth - 1, facts)
            finally:
                os.close(inner)


def path_fact(folder: int, name: str) -> str:
    """`dir 0700`, `file 0644 sha256:…`, `link <target>`; raises FileNotFoundError."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    if stat.S_ISDIR(status.st_mode):
        return f"dir {mode}"
    if stat.S_ISLNK(status.st_mode):
        return f"link {printable(os.readlink(name, dir_fd=folder))}"
    if not stat.S_ISREG(status.st_mode):
        return f"other {mode}"
    if status.st_size > MAX_FILE:
        return f"file {mode} size:{status.st_size}"
    with open(os.open(name, OPEN_FILE, dir_fd=folder), "rb") as file:
        return f"file {mode} sha256:{hashlib.sha256(file.read(MAX_FILE)).hexdigest()}"


def open_below(root: str, place: str) -> Optional[int]:
    """A folder below the root without following a link; None if it is not there."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in place.split("/"):
        try:
            inner = os.open(part, OPEN_FOLDER, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ProbeError(f"/{place}: {part} is no folder: {error.strerror}") from error
        finally:
            os.close(folder)
        folder = inner
    return folder


def read_descriptors(probes: Probes) -> dict[str, str]:
    """Allocation id → state id; a descriptor that cannot be read has none, and so is foreign."""
    folder = open_below(probes.root, "etc/gpuaas/allocations")
    if folder is None:
        return {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
        return {printable(name[:-5]): read_state_id(folder, name) for name in names[:MAX_PATHS]}
    finally:
        os.close(folder)


def read_state_id(folder: int, name: str) -> str:
    try:
        with open(os.open(name, OPEN_FILE, dir_fd=folder), "rb") as file:
            descriptor = json.loads(file.read(1_000_000))
    except (OSError, ValueError, RecursionError):
        return ""
    found = descriptor.get("stateId") if isinstance(descriptor, dict) else None
    return printable(found) if isinstance(found, str) else ""


def read_sizes(probes: Probes) -> dict[str, int]:
    """Bytes of each home and scratch folder; left out where counting would take too long."""
    budget = [MAX_SIZED]
    sizes: dict[str, int] = {}
    for place in ("home", "var/lib/gpuaas/scratch"):
        folder = open_below(probes.root, place)
        if folder is not None:
            os.close(folder)
            for entry in sorted(os.scandir(probes.at(place)), key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    size = probes.ask("sizes", partial(size_of, entry.path, budget))
                    if size is not None:
                        sizes[f"/{place}/{printable(entry.name)}"] = size
    return sizes


def size_of(folder: str, budget: list[int], _: Probes) -> int:
    """Bytes of the files below, on this file system; `budget` holds how many more may be seen."""
    total, todo, device = 0, [folder], os.lstat(folder).st_dev
    until = time.monotonic() + MAX_SECONDS / 4
    while todo:
        for entry in os.scandir(todo.pop()):
            budget[0] -= 1
            if budget[0] < 0 or time.monotonic() > until:
                raise ProbeError(f"{folder}: too many files to count")
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                todo.append(entry.path)
            elif stat.S_ISREG(status.st_mode):
                total += status.st_size
    return total


def printable(text: str) -> str:
    """Odd bytes, control characters and backslashes as escapes, so that names are plain text."""
    text = text.replace("\\", "\\\\")
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def main() -> None:
    request = json.loads(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read())
    root = request["root"]
    if not os.path.isabs(root) or not os.path.isdir(root):
        sys.exit(f"root folder {root} is not there")
    sys.stdout.write(json.dumps(observe(root), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
