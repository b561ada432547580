"""Slot drives: who uses them. No tenant is given one, so whoever does has put data there."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Iterator, Optional

from .machine import read_nvmes
from .probes import Probes, printable

MOUNTS = "/proc/self/mounts"


def read_drive_users(probes: Probes) -> dict[str, str]:
    """By-id name → what it is part of or mounted at; empty where nobody uses it."""
    by_id = "dev/disk/by-id"
    return {
        name: used_by(probes, os.path.basename(os.path.realpath(probes.at(by_id, name)))) or ""
        for name in read_nvmes(probes)
    }


def used_by(probes: Probes, block: str) -> Optional[str]:
    """None for what is no drive of the kernel, as in a stand-in, and for one that lies idle."""
    folder = probes.at("sys/block", block)
    if not os.path.isdir(folder):
        return None
    parts = [name for name in os.listdir(folder) if name.startswith(f"{block}p")]
    with open(MOUNTS, encoding="utf-8", errors="replace") as table:
        mounted = {words[0]: words[1] for words in map(str.split, table)}
    places = [mounted[at] for name in (block, *parts) if (at := f"/dev/{name}") in mounted]
    found = [
        *(f"mounted at {place}" for place in places),
        *(f"part of {holder}" for part in ("", *parts) for holder in holders(folder, part)),
    ]
    return printable(min(found)) if found else None


def holders(folder: str, part: str) -> Iterator[str]:
    with suppress(FileNotFoundError):
        yield from sorted(os.listdir(os.path.join(folder, part, "holders")))
