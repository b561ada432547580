"""Listeners: where the host's own sshd accepts connections, and how many from whom at a time.

Its files, systemd and the kernel are asked, since each of them alone may not know: a port may be
given on a command line, by a socket unit, or by a second sshd with files of its own.
"""

from __future__ import annotations

import os
import re

from .connections import CONFIG
from .probes import ProbeError, Probes, lines_of, printable
from .sshd import PROBE, Told, ask, connection, value_of

SOCKETS = ("ssh.socket", "sshd.socket")
PORT_AT_END = re.compile(r"(?:^|:)(\d+)$")
LISTEN = re.compile(r"^Listen=(?:.*:)?(\d+) \(Stream\)$")
SSHD = '(("sshd",'
OF_OTHERS = re.compile(r" uid:[1-9]")
"""What the kernel says of a socket that is not root's; a name alone says nothing of whose it is."""

SHARED_OUT = "shared out by address"
STARTUPS = ("maxstartups", "persourcemaxstartups", "persourcenetblocksize")
SOURCES, ALONE = 50, "32:128"
"""How many addresses have their share at least, and that each of them counts alone."""


def ports(probes: Probes) -> set[int]:
    """Every port on which it listens, or will when it starts. Raises ProbeError."""
    return {*_of_files(probes), *_of_sockets(probes), *_of_processes()}


def read_startups(probes: Probes) -> dict[str, str]:
    """`shared out by address`, where no address can hold all places of those not yet logged in."""
    try:
        told, unit = _told(probes), handed_out_by(probes)
    except ProbeError as error:
        return {"startups": f"unknown: {error}"}
    if unit:
        return {"startups": f"open: {printable(unit)} takes each connection itself (Accept=yes)"}
    settings = " ".join(f"{name}={value_of(told, name)}" for name in STARTUPS)
    return {"startups": SHARED_OUT if are_shared_out(told) else printable(f"open: {settings}")}


def are_shared_out(told: Told) -> bool:
    begin, each, block = (value_of(told, name) for name in STARTUPS)
    free = begin.partition(":")[0]
    bounded = each.isdecimal() and free.isdecimal() and block == ALONE
    return bounded and int(free) >= SOURCES * int(each) > 0


def handed_out_by(probes: Probes) -> str:
    """The socket unit that starts an sshd for each connection, and counts by rules of its own."""
    units: list[dict[str, str]] = [{}]
    for line in probes.once("sockets of sshd", _sockets):
        name, _, value = line.partition("=")
        if not line:
            units.append({})
        elif name != "Listen":
            units[-1][name] = value
    taking = {"Accept": "yes", "ActiveState": "active"}
    return next((unit.get("Id", "?") for unit in units if taking.items() <= unit.items()), "")


def _told(probes: Probes) -> Told:
    return ask(connection(PROBE), probes.at(CONFIG))


def _of_files(probes: Probes) -> set[int]:
    told = _told(probes)
    addresses = [value.split()[0] for value in told.get("listenaddress", ()) if value.split()]
    found = (PORT_AT_END.search(one) for one in (*told.get("port", ()), *addresses))
    return {int(one.group(1)) for one in found if one}


def _of_sockets(probes: Probes) -> set[int]:
    found = (LISTEN.match(line) for line in probes.once("sockets of sshd", _sockets))
    return {int(one.group(1)) for one in found if one}


def _of_processes() -> set[int]:
    """Of every sshd that root has started, whatever its files are."""
    rows = [line for line in lines_of("ss", "-Hltnpe") if SSHD in line]
    ours = [line.split() for line in rows if not OF_OTHERS.search(line)]
    found = (PORT_AT_END.search(words[3]) for words in ours if len(words) > 3)
    return {int(one.group(1)) for one in found if one}


def _sockets(probes: Probes) -> list[str]:
    """Of the units that listen in place of sshd; none where systemd does not run the host."""
    if not os.path.isdir("/run/systemd/system"):
        return []
    asked = (f"--property={name}" for name in ("Id", "ActiveState", "Accept", "Listen"))
    return lines_of("systemctl", "show", *SOCKETS, *asked)
