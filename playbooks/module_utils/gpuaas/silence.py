"""Silence: shares whose server does not answer, found out by somebody else who may wait for ever.

Whoever looks at such a place himself hangs, and with him all that he was to do for others.
"""

from __future__ import annotations

import subprocess
from typing import NamedTuple, Optional

from .mounts import mounts
from .probes import SAFE_PATH, ProbeError, found_in_path, printable

PATIENCE_SECONDS = 5.0
DISTANT = frozenset({"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "lustre", "beegfs", "gpfs"})


class Room(NamedTuple):
    """Of a file system: bytes in all, and those that are used."""

    total: int
    used: int


def room_of(path: str) -> Optional[Room]:
    """None where nothing is there. Raises ProbeError where nobody answers."""
    program = found_in_path("stat")
    if program is None:
        raise ProbeError("stat is not there")
    asked = subprocess.Popen(
        [program, "-f", "-c", "%S %b %f", "--", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": SAFE_PATH, "LC_ALL": "C"},
    )
    try:
        said, _ = asked.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        # Not waited for: what hangs in the kernel does not end by being killed.
        asked.kill()
        raise ProbeError(f"{printable(path)} does not answer") from None
    if asked.returncode != 0:
        return None
    size, blocks, free = map(int, said.split())
    return Room(size * blocks, size * (blocks - free))


def check_shares() -> None:
    """Raises ProbeError, naming the first share of this host that does not answer."""
    for mount in mounts():
        if mount.kind in DISTANT or mount.kind.startswith("fuse"):
            room_of(mount.point)
