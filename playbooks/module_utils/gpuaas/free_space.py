"""Free space: whether tenants can fill what the host itself writes to, and what limits them."""

from __future__ import annotations

import os

from .probes import Probes
from .quota_facts import read_enforcement
from .quota_shares import PARENTS
from .reserve import read_reserve

HOSTS_OWN = ("etc", "run", "var/log")
APART = "apart from the host's own"


def read_disk(probes: Probes) -> dict[str, str]:
    """What tenants can fill of the host's own, by what they are bounded, and what root keeps."""
    theirs, own = _devices(probes, PARENTS), set(_devices(probes, HOSTS_OWN).values())
    shared = sorted(f"/{place}" for place, device in theirs.items() if device in own)
    return {
        "reserve": read_reserve(probes),
        "tenants": f"with the host's own: {', '.join(shared)}" if shared else APART,
        "quotas": read_enforcement(probes),
    }


def _devices(probes: Probes, places: tuple[str, ...]) -> dict[str, int]:
    """Of those places that there are."""
    there = {place: probes.at(place) for place in places if os.path.isdir(probes.at(place))}
    return {place: os.stat(path).st_dev for place, path in there.items()}
