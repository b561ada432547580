"""Room: whether tenants can fill what the host itself writes to, and what bounds each of them.

It is read where the kernel says what is mounted; nothing here bounds anybody.
"""

from __future__ import annotations

import os

from .mounts import Mount, mounts
from .paths import INSTANCES
from .probes import Probes, printable
from .reserve import read_reserve

HOSTS_OWN = ("etc", "run", "var/log")
TENANTS = (
    "home",
    "var/lib/gpuaas/scratch",
    f"{INSTANCES[1:]}/tmp",
    f"{INSTANCES[1:]}/var-tmp",
)
"""Places in which tenants write and no limit of memory counts what they do."""

APART = "apart from the host's own"
PROJECTS = frozenset({"prjquota", "pquota"})


def read_disk(probes: Probes) -> dict[str, str]:
    """What tenants can fill of the host's own, by what they are bounded, and what root keeps."""
    theirs, own = _devices(probes, TENANTS), set(_devices(probes, HOSTS_OWN).values())
    shared = sorted(f"/{place}" for place, device in theirs.items() if device in own)
    return {
        "reserve": read_reserve(probes),
        "tenants": f"with the host's own: {', '.join(shared)}" if shared else APART,
        "quotas": _quotas(set(theirs.values())),
    }


def _quotas(devices: set[int]) -> str:
    """Nobody is given one, whatever the file system could do: it is never said to be in force."""
    numbers = {f"{os.major(device)}:{os.minor(device)}" for device in devices}
    found: dict[str, Mount] = {}
    for mount in mounts():
        if mount.device in numbers:
            found.setdefault(mount.device, mount)
    words = sorted(f"{one.kind} at {one.point}{_told(one)}" for one in found.values())
    return printable(f"none: {', '.join(words) or 'nothing is known of their file systems'}")


def _told(mount: Mount) -> str:
    return ", which counts by project" if PROJECTS & {*mount.options} else ""


def _devices(probes: Probes, places: tuple[str, ...]) -> dict[str, int]:
    """Of those places that there are."""
    there = {place: probes.at(place) for place in places if os.path.isdir(probes.at(place))}
    return {place: os.stat(path).st_dev for place, path in there.items()}
