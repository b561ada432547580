"""Stale mounts: shares whose server does not answer, found by a process that may wait for ever.

Whoever looks at such a place themselves hangs, and with them all that they were to do for others.
"""

from __future__ import annotations

import subprocess
from typing import NamedTuple, Optional

from .mounts import Mount, mounts
from .probes import SAFE_PATH, ProbeError, found_in_path, printable

PATIENCE_SECONDS = 5.0
DISTANT = frozenset({"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "lustre", "beegfs", "gpfs"})
"""File systems of other machines. What stands for one that is mounted when it is looked at is asked

for as well, and so is what a program serves.
"""


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


class Rooms:
    """Of many places: what does not answer is waited for once, however many lie on it."""

    def __init__(self) -> None:
        self._mounts, self._silent = mounts(), set[str]()

    def of(self, path: str) -> Optional[Room]:
        """Raises ProbeError where nobody answers, or has not answered before."""
        device = self._device(path)
        if device in self._silent:
            raise ProbeError(f"{printable(path)} does not answer")
        try:
            return room_of(path)
        except ProbeError:
            self._silent.add(device)
            raise

    def is_distant(self, path: str) -> bool:
        """Whether another machine, or somebody's program, serves what lies there."""
        mount = self._mount(path)
        return mount is None or is_served(mount)

    def _device(self, path: str) -> str:
        mount = self._mount(path)
        return path if mount is None else mount.device

    def _mount(self, path: str) -> Optional[Mount]:
        """What it lies on, so that nobody has to look at it."""
        around = [one for one in self._mounts if f"{path}/".startswith(f"{one.point.rstrip('/')}/")]
        return max(around, key=lambda one: len(one.point)) if around else None


def served_points() -> frozenset[str]:
    """Where this host has something mounted that is only looked at if somebody answers."""
    return frozenset(mount.point for mount in mounts() if is_served(mount))


def is_served(mount: Mount) -> bool:
    """Whether looking at it is to ask somebody who may not answer."""
    return mount.kind in DISTANT or mount.kind == "autofs" or mount.kind.startswith("fuse")
