"""The fabric between GPUs: who manages it, and what the kernel has logged of its switches.

Without a manager that has done its work no program on such a board computes. What each card says
of the fabric is an error of that card; here is what concerns all of them.
"""

from __future__ import annotations

import os

from .card_errors import LACKS, bare
from .cards import inquiry
from .machine import PCI_DEVICES
from .probes import STANDIN, ProbeError, Probes, call, failure, printable
from .xids import read_sxids

UNIT = "nvidia-fabricmanager.service"
NVIDIA, BRIDGE = "0x10de", "0x0680"
ABSENT, RUNNING = ("not-found", "masked"), ("active", "reloading")
TOLD_BY = "fabricmanager"
"""Where a stand-in says what systemd would of the manager."""


def read_fabric(probes: Probes) -> list[str]:
    """`sxid 20034 of 0000:c1:00.0` for fatal ones, and `manager failed`; a sound one has none."""
    return [*read_sxids(probes), *manager(probes)]


def manager(probes: Probes) -> list[str]:
    """Where cards hang on switches, or say that they have a fabric, somebody has to manage it.

    Where no service is installed, cards that say that it is complete are believed: it may run in a
    container, or on another machine.
    """
    switches, states = has_switches(probes.hardware), fabric_states(probes)
    if not switches and not states:
        return []
    about = service(probes)
    if about is None or about.get("LoadState") in ABSENT:
        complete = bool(states) and all(state == "completed" for state in states)
        return [] if complete or not switches else ["manager not installed"]
    state = about.get("ActiveState", "unknown")
    wanted = switches or about.get("UnitFileState") == "enabled"
    return [] if state in RUNNING or not wanted else [printable(f"manager {state}")]


def has_switches(hardware: Probes) -> bool:
    return any(
        hardware.text(PCI_DEVICES, address, "vendor").strip() == NVIDIA
        and hardware.text(PCI_DEVICES, address, "class").startswith(BRIDGE)
        for address in os.listdir(hardware.at(PCI_DEVICES))
    )


def fabric_states(probes: Probes) -> list[str]:
    told = (card.told.get("fabric/state", "") for card in inquiry(probes).log.values())
    return [state for state in (bare(one).lower() for one in told) if state not in LACKS]


def service(probes: Probes) -> "dict[str, str] | None":
    """What systemd says of it; None where nobody can be asked, as in a folder."""
    if os.path.exists(probes.at(STANDIN, TOLD_BY)):
        lines = probes.text(STANDIN, TOLD_BY).splitlines()
    elif probes.root != "/":
        return None
    else:
        done = call("systemctl", "show", "-p", "LoadState,ActiveState,UnitFileState", UNIT)
        if done.returncode != 0:
            raise ProbeError(failure("systemctl", done))
        lines = done.stdout.splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
