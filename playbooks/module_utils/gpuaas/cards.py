"""Cards: what nvidia-smi and sysfs tell of them, by UUID, never by index."""

from __future__ import annotations

import re
from functools import partial
from typing import Optional

from .machine import cards_on_bus, read_numa
from .probes import Facts, ProbeError, Probes, call, failure

SMI_FIELDS = "index,uuid,pci.bus_id,name,memory.total,memory.used,driver_version,utilization.gpu"
SMI_FORMAT = "--format=csv,noheader,nounits"
UUID = re.compile(r"GPU-[0-9A-Za-z-]{8,64}")
PCI_ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
LOST_CARD = re.compile(r"GPU ?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")


def read_gpus(probes: Probes) -> list[Facts]:
    """Cards by UUID, never by index; a lost card is noted and is not among them."""
    cards = []
    for line in card_lines(probes):
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


def card_lines(probes: Probes) -> list[str]:
    """One for each card. A lost one may cut the answer short; the others still answer alone."""
    question = (f"--query-gpu={SMI_FIELDS}", SMI_FORMAT)
    lines = nvidia_smi(probes, *question)
    if is_cut_short(lines):
        told = " ".join(lines).lower()
        for address in cards_on_bus(probes.hardware):
            if address not in told:
                alone = partial(alone_of, address, question)
                lines += probes.ask("gpus", alone) or []
    return lines


def is_cut_short(lines: list[str]) -> bool:
    return any(map(LOST_CARD.search, lines))


def alone_of(card: str, question: tuple[str, ...], probes: Probes) -> list[str]:
    return nvidia_smi(probes, *question, "-i", card)


def read_card(probes: Probes, line: str) -> Facts:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != len(SMI_FIELDS.split(",")) or not UUID.fullmatch(fields[1]):
        raise ProbeError(f"nvidia-smi answers what it should not: {line}")
    _, uuid, bus, model, memory, used, driver, busy = fields
    card = {
        "uuid": uuid,
        "pciAddress": pci_address(bus),
        "model": model,
        "memoryMiB": number(memory),
        "memoryUsedMiB": number(used),
        "utilization": number(busy),
        "driver": None if driver.startswith("[") else driver,
        "numa": probes.ask("numa", lambda p: read_numa(p.hardware, pci_address(bus))),
    }
    return {key: value for key, value in card.items() if value is not None}


def read_processes(probes: Probes, uuids: set[str]) -> dict[str, list[int]]:
    """Compute processes by card; one that cannot be put to a card makes all of them unknown."""
    found: dict[str, list[int]] = {uuid: [] for uuid in uuids}
    question = ("--query-compute-apps=gpu_uuid,pid", SMI_FORMAT)
    lines = nvidia_smi(probes, *question)
    if is_cut_short(lines):
        lines = [line for uuid in sorted(uuids) for line in alone_of(uuid, question, probes)]
    for line in lines:
        uuid, _, pid = (part.strip() for part in line.partition(","))
        if uuid not in found or not pid.isdigit():
            raise ProbeError(f"a process on something that is no known card: {line}")
        found[uuid].append(int(pid))
    return {uuid: sorted(pids) for uuid, pids in found.items()}


def nvidia_smi(probes: Probes, *question: str) -> list[str]:
    """The lines of an answer; anything but success is no answer."""
    program = "nvidia-smi" if probes.root == "/" else probes.at("usr/bin/nvidia-smi")
    done = call(program, *question)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode != 0 and not any(LOST_CARD.search(line) for line in lines):
        raise ProbeError(failure(program, done))
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
