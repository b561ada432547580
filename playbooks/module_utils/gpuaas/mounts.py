"""Mounts: what is mounted where, as the kernel reports it."""

from __future__ import annotations

import ctypes
import os
import re
from typing import NamedTuple, Optional

NEW_MOUNTS = 0x20000
"""How setns(2) calls a namespace of mounts."""


class Mount(NamedTuple):
    """One mount, as the kernel lists it.

    `root` is the part of the file system that is mounted at `point`; `options` are the file
    system's own, `flags` those of this mount. `number` identifies it among the mounts of all
    namespaces, and `parent` the mount it is in. `source` is what the caller of mount named.
    """

    point: str
    device: str
    root: str
    kind: str
    options: tuple[str, ...]
    flags: tuple[str, ...] = ()
    number: str = ""
    parent: str = ""
    source: str = ""

    @property
    def what(self) -> tuple[str, str]:
        """The same for every mount of the same folder, in whatever namespace."""
        return self.device, self.root


def mounts(process: str = "self") -> list[Mount]:
    """In the order in which they were made: a later one hides an earlier one at its place."""
    with open(f"/proc/{process}/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return [_mount(line.rstrip("\n").split(" ")) for line in table]


def mounts_within(space: str) -> list[Mount]:
    """All of a namespace, by its file: a process is told of what lies below its own root alone.

    Somebody of ours enters it for that. Raises OSError where it is gone, or nobody may.
    """
    into = os.open(space, os.O_RDONLY | os.O_CLOEXEC)
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _tell(into, ends[1])
        finally:
            os._exit(status)
    os.close(into)
    os.close(ends[1])
    with open(ends[0], encoding="utf-8", errors="surrogateescape", newline="\n") as table:
        found = [_mount(line.rstrip("\n").split(" ")) for line in table]
    if os.waitpid(child, 0)[1] != 0:
        raise PermissionError(f"{space} cannot be entered")
    return found


def _tell(space: int, to: int) -> int:
    """What is called /proc in there may be whatever somebody likes: it is told by our own."""
    try:
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        if ctypes.CDLL(None).setns(space, NEW_MOUNTS) != 0:
            return 1
        table = os.open("self/mountinfo", os.O_RDONLY, dir_fd=proc)
        while data := os.read(table, 1 << 16):
            while data:
                data = data[os.write(to, data) :]
    except OSError:
        return 1
    return 0


def mounted_at(point: str) -> Optional[Mount]:
    return next((mount for mount in reversed(mounts()) if mount.point == point), None)


def _mount(fields: list[str]) -> Mount:
    """Optional fields of any number stand before the dash."""
    kind, source, options = fields[fields.index("-", 6) + 1 :][:3]
    return Mount(
        point=_unescape(fields[4]),
        device=fields[2],
        root=_unescape(fields[3]),
        kind=kind,
        options=tuple(options.split(",")),
        flags=tuple(fields[5].split(",")),
        number=fields[0],
        parent=fields[1],
        source=_unescape(source),
    )


def _unescape(text: str) -> str:
    """The kernel writes space, tab, newline and backslash as octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)
