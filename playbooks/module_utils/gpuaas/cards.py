"""GPUs: what nvidia-smi and sysfs report of them, by UUID, never by index.

Two questions tell nearly all: one line a card, which nobody but the driver writes, and the long
answer, which knows of fabric, rows and device nodes as well.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Iterable, NamedTuple, Optional

from .machine import cards_on_bus, read_numa
from .probes import Facts, ProbeError, Probes, printable
from .smi import CSV, INFOROM, LONG, PCI_ADDRESS, Answer, Remark, UnknownField, ask_smi, pci_address
from .smi_log import Card, Log, read_log

FIELDS = (
    *("index", "uuid", "pci.bus_id", "name", "memory.total", "memory.used", "driver_version"),
    *("utilization.gpu", "mig.mode.current", "ecc.errors.uncorrected.volatile.total"),
    *("retired_pages.pending", "accounting.mode", "persistence_mode"),
    *("temperature.gpu", "fan.speed", "pstate", "power.draw", "clocks.sm"),
)
"""The last ones are asked for since a card in error says so in any of them."""

NEEDED = ("uuid", "pci.bus_id", "name")
UUID = re.compile(r"GPU-[0-9A-Za-z-]{8,64}")
VERSION = re.compile(r"\d+(\.\d+)+(-[a-z]+)?")
LEAST_BRANCH = 450
"""Drivers before it do not tell whether a card is divided (MIG)."""


class Inquiry(NamedTuple):
    """`rows` are fields by address, `log` the long answer; `dead` are rows without a UUID."""

    rows: dict[str, dict[str, str]]
    dead: dict[str, dict[str, str]]
    log: dict[str, Card]
    remarks: list[Remark]
    driver: Optional[str]


def inquiry(probes: Probes) -> Inquiry:
    """Everything that is asked of cards, once in a look."""
    return probes.once("cards", inquire)


def read_gpus(probes: Probes) -> list[Facts]:
    """Cards by UUID; a lost card is noted and is not among them."""
    told = inquiry(probes)
    cards = [card_of(probes, address, told) for address in sorted(told.rows)]
    processes = probes.ask("processes", partial(read_processes, told=told))
    if processes is not None:
        for card in cards:
            card["processes"] = processes[card["uuid"]]
    return cards


def inquire(probes: Probes) -> Inquiry:
    fields, answer = ask_rows(probes)
    long = probes.ask("gpus", lambda p: ask_smi(p, *LONG)) or Answer([], [])
    log = read_log(long.lines)
    remarks = list(dict.fromkeys((*answer.remarks, *long.remarks)))
    rows, dead = sorted_out(probes, fields, answer.lines)
    remarked = {remark.address for remark in remarks}
    if answer.cut_short:
        for address in on_bus(probes):
            if address not in remarked.union(rows, dead):
                alone = partial(row_alone, address, fields)
                for line in probes.ask("gpus", alone) or []:
                    more, more_dead = sorted_out(probes, fields, [line])
                    rows.update(more)
                    dead.update(more_dead)
    if not rows and not dead and not remarks:
        raise ProbeError("nvidia-smi names no card")
    for remark in remarks:
        what = "a warning" if INFOROM.search(remark.words) else "a card does not answer"
        probes.note("gpus", f"{what}: {remark.words}")
    for address, row in dead.items():
        probes.note("gpus", f"a card does not answer: {address}: {', '.join(row.values())}")
    cards = long_by_address(probes, log, rows if log.cards or long.cut_short else ())
    driver = version_of(probes, rows.values(), log)
    check_branch(driver)
    return Inquiry(rows, dead, cards, remarks, driver)


# One line a card.


def ask_rows(probes: Probes) -> tuple[tuple[str, ...], Answer]:
    """Without the fields that this driver does not know."""
    fields: tuple[str, ...] = FIELDS
    while True:
        try:
            return fields, ask_smi(probes, f"--query-gpu={','.join(fields)}", CSV)
        except UnknownField as unknown:
            if unknown.field not in fields or unknown.field in NEEDED:
                raise
            fields = tuple(field for field in fields if field != unknown.field)


def row_alone(address: str, fields: tuple[str, ...], probes: Probes) -> list[str]:
    return ask_smi(probes, f"--query-gpu={','.join(fields)}", CSV, "-i", address).lines


def sorted_out(
    probes: Probes, fields: tuple[str, ...], lines: Iterable[str]
) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Rows by address, and those of cards that answer without a UUID; any odd line is noted.

    A card of which two lines speak is not believed.
    """
    rows: dict[str, dict[str, str]] = {}
    dead: dict[str, dict[str, str]] = {}
    uuids: list[str] = []
    odd: list[str] = []
    for line in lines:
        parts = [part.strip() for part in line.split(",")]
        row = {field: parts[at] for at, field in enumerate(fields) if at < len(parts)}
        try:
            if len(parts) != len(fields):
                raise ProbeError(f"nvidia-smi answers what it should not: {line}")
            address = pci_address(row["pci.bus_id"])
            if row["uuid"].startswith("["):
                dead[address] = row
            elif not UUID.fullmatch(row["uuid"]):
                raise ProbeError(f"nvidia-smi answers what it should not: {line}")
            else:
                if row["uuid"] in uuids or address in rows:
                    odd.append("nvidia-smi names one card twice")
                uuids.append(row["uuid"])
                rows[address] = row
        except ProbeError as error:
            odd.append(str(error))
    twice = {uuid for uuid in uuids if uuids.count(uuid) > 1}
    rows = {address: row for address, row in rows.items() if row["uuid"] not in twice}
    if odd and not rows and not dead:
        raise ProbeError(odd[0])
    for words in dict.fromkeys(odd):
        probes.note("gpus", words)
    return rows, dead


def on_bus(probes: Probes) -> list[str]:
    return probes.hardware.ask("gpus", cards_on_bus) or []


# The long answer.


def long_by_address(probes: Probes, log: Log, rows: Iterable[str]) -> dict[str, Card]:
    """Of `rows`, those that were not told of to the end are asked alone."""
    found = {}
    for name, card in log.cards.items():
        try:
            found[pci_address(name)] = card
        except ProbeError as error:
            probes.note("gpus", f"nvidia-smi -q -x: {error}")
    for name in sorted(log.twice):
        probes.note("gpus", f"nvidia-smi -q -x tells of {printable(name)} twice")
    for address in rows:
        if address not in found or not found[address].whole:
            alone = probes.ask("gpus", partial(long_alone, address))
            if alone is not None:
                found[address] = alone
    return found


def long_alone(address: str, probes: Probes) -> Optional[Card]:
    cards = read_log(ask_smi(probes, *LONG, "-i", address).lines).cards
    return next((card for name, card in cards.items() if is_at(name, address)), None)


def is_at(name: str, address: str) -> bool:
    return PCI_ADDRESS.fullmatch(name) is not None and pci_address(name) == address


# Of all cards together.


def version_of(probes: Probes, rows: Iterable[dict[str, str]], log: Log) -> Optional[str]:
    """Of the module in the kernel; newer drivers call it so, and no longer `driver_version`."""
    told = [row.get("driver_version", "") for row in rows]
    told += [log.host.get(name, "") for name in ("kmd_version", "driver_version")]
    found = next(filter(VERSION.fullmatch, told), None)
    return found or probes.ask("driver", asked_version) or probes.ask("driver", module_version)


def asked_version(probes: Probes) -> Optional[str]:
    try:
        lines = ask_smi(probes, "--query-gpu=kmd_version", CSV).lines
    except UnknownField:
        return None
    return next(filter(VERSION.fullmatch, map(str.strip, lines)), None)


def module_version(probes: Probes) -> Optional[str]:
    """As the kernel tells it, which needs no driver that answers."""
    try:
        text = probes.text("sys/module/nvidia/version").strip()
    except FileNotFoundError:
        return None
    return text if VERSION.fullmatch(text) else None


def check_branch(driver: Optional[str]) -> None:
    if driver and int(driver.split(".")[0]) < LEAST_BRANCH:
        raise ProbeError(
            f"driver {driver} is older than branch {LEAST_BRANCH}, the first that tells whether a"
            f" card is divided: install a driver of branch {LEAST_BRANCH} or newer on this host"
        )


def card_of(probes: Probes, address: str, told: Inquiry) -> Facts:
    row = told.rows[address]
    version, long = row.get("driver_version", ""), told.log.get(address)
    minor = long.told.get("minor_number", "") if long else ""
    card = {
        "uuid": row["uuid"],
        "pciAddress": address,
        "model": printable(row["name"]),
        "memoryMiB": number(row.get("memory.total", "")),
        "memoryUsedMiB": number(row.get("memory.used", "")),
        "utilization": number(row.get("utilization.gpu", "")),
        "driver": version if VERSION.fullmatch(version) else told.driver,
        "minor": number(minor),
        "numa": probes.ask("numa", lambda p: read_numa(p.hardware, address)),
    }
    return {key: value for key, value in card.items() if value is not None}


def read_processes(probes: Probes, told: Inquiry) -> dict[str, list[int]]:
    """Compute processes by card; one that cannot be put to a card makes all of them unknown."""
    address_of = {row["uuid"]: address for address, row in told.rows.items()}
    found: dict[str, list[int]] = {uuid: [] for uuid in address_of}
    question = "--query-compute-apps=gpu_uuid,pid"
    answer = ask_smi(probes, question, CSV)
    lines = answer.lines
    if answer.cut_short:
        lines = []
        for uuid, address in sorted(address_of.items()):
            long = told.log.get(address)
            if long is not None and long.whole and long.pids is not None:
                found[uuid] = list(long.pids)
            else:
                lines += ask_smi(probes, question, CSV, "-i", address).lines
    for line in lines:
        uuid, _, pid = (part.strip() for part in line.partition(","))
        if uuid not in found or not pid.isdigit():
            raise ProbeError(f"a process on something that is no known card: {line}")
        found[uuid].append(int(pid))
    return {uuid: sorted(pids) for uuid, pids in found.items()}


def number(text: str) -> Optional[int]:
    """`[N/A]`, `[Unknown Error]` and the like are unknown."""
    return int(text) if text.isascii() and text.isdigit() else None
