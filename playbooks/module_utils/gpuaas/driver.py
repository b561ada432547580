"""The GPU driver between tenants: whether it stays loaded, keeps its settings, and needs nobody.

Without a process that holds it the driver ends with the last user of a card: what was set is lost,
the next start is slow, and a program with more rights than its caller would load what is missing.
"""

from __future__ import annotations

import os
from typing import Sequence

from .cards import inquiry
from .probes import ProbeError, Probes, call, printable

DAEMON = "nvidia-persistenced.service"
MODULE = "nvidia_uvm"
AT_BOOT = ("etc/modules-load.d", "run/modules-load.d", "usr/lib/modules-load.d")
ON, CANNOT = "Enabled", ("[N/A]", "[Not Supported]")


def read_driver(probes: Probes) -> dict[str, str]:
    return {
        "accounting": accounting(modes(probes, "accounting.mode")),
        "module": module(probes),
        "persistence": persistence(enabled(DAEMON), modes(probes, "persistence_mode")),
    }


def modes(probes: Probes, name: str) -> list[str]:
    """One word for each card; none where the driver does not say."""
    try:
        rows = inquiry(probes).rows.values()
    except (OSError, ProbeError, ValueError):
        return []
    return [row[name] for row in rows if name in row]


def enabled(unit: str) -> str:
    try:
        done = call("systemctl", "is-enabled", unit)
    except ProbeError:
        return "unknown"
    return printable(done.stdout.strip()) or "unknown"


def accounting(told: Sequence[str]) -> str:
    """Not every card can."""
    if not told:
        return "the driver does not say"
    off = [mode for mode in told if mode not in (ON, *CANNOT)]
    return f"off on {len(off)} of {len(told)} cards" if off else "on where cards can"


def persistence(unit: str, told: Sequence[str]) -> str:
    """By the daemon at every boot, and on every card now."""
    wrong = [] if unit == "enabled" else [f"{DAEMON} is {unit}"]
    off = [mode for mode in told if mode != ON]
    if not told:
        wrong.append("the driver does not say")
    elif off:
        wrong.append(f"off on {len(off)} of {len(told)} cards")
    return "; ".join(wrong) or "on"


def module(probes: Probes) -> str:
    """Without it no program of a tenant computes."""
    loaded = os.path.isdir(probes.at("sys/module", MODULE))
    if not loaded:
        return f"{MODULE} is not loaded"
    return "at boot" if named_at_boot(probes) else f"{MODULE} is loaded, but not at boot"


def named_at_boot(probes: Probes) -> bool:
    for place in AT_BOOT:
        if os.path.isdir(probes.at(place)):
            for name in sorted(os.listdir(probes.at(place))):
                lines = probes.text(place, name).splitlines() if name.endswith(".conf") else []
                if MODULE in (line.strip().replace("-", "_") for line in lines):
                    return True
    return False
