"""Device names: which names mean one drive or network port, so that none counts as two."""

from __future__ import annotations

import os

from .machine import PCI_DEVICES, read_nics, read_nvmes
from .probes import Probes, printable

BY_ID, BLOCKS = "dev/disk/by-id", "sys/block"
PORTS = ("infiniband", "net")


def read_devices(probes: Probes) -> dict[str, str]:
    """Name → the one device that it is a name of, whatever else that is called."""
    return {**drives(probes.hardware), **ports(probes.hardware)}


def drives(hardware: Probes) -> dict[str, str]:
    """By-id names; a host without any has no such folder."""
    if not os.path.isdir(hardware.at(BY_ID)):
        return {}
    return {name: printable(drive_of(hardware, name)) for name in read_nvmes(hardware)}


def drive_of(hardware: Probes, name: str) -> str:
    """What the kernel calls it; and where it has several ways to one, what they lead to."""
    block = os.path.basename(os.path.realpath(hardware.at(BY_ID, name)))
    slaves = hardware.at(BLOCKS, block, "slaves")
    below = sorted(os.listdir(slaves)) if os.path.isdir(slaves) else []
    block = below[0] if below else block
    serial, wwid = (word_of(hardware, block, file) for file in ("device/serial", "wwid"))
    # Makers have sold drives of one wwid; what has one serial as well is one drive.
    return f"drive {serial} {wwid}" if serial and wwid else f"drive {block}"


def word_of(hardware: Probes, block: str, file: str) -> str:
    try:
        return "-".join(hardware.text(BLOCKS, block, file).split())
    except OSError:
        return ""


def ports(hardware: Probes) -> dict[str, str]:
    """Addresses, and every name that the kernel has for what sits there."""
    if not os.path.isdir(hardware.at(PCI_DEVICES)):
        return {}
    found = {}
    for address in read_nics(hardware):
        found[address] = f"port {address}"
        for kind in PORTS:
            folder = hardware.at(PCI_DEVICES, address, kind)
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                found[printable(name)] = f"port {address}"
    return found
