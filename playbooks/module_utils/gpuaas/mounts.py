"""What is mounted where, as the kernel tells it."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional


class Mount(NamedTuple):
    """`root` is what of the file system stands at `point`; `options` are the file system's own,

    `flags` those of this mount of it.
    """

    point: str
    device: str
    root: str
    kind: str
    options: tuple[str, ...]
    flags: tuple[str, ...] = ()

    @property
    def what(self) -> tuple[str, str]:
        """The same for every mount of the same folder, in whatever namespace."""
        return self.device, self.root


def mounts(process: str = "self") -> list[Mount]:
    """In the order in which they were made: a later one hides an earlier one at its place."""
    with open(f"/proc/{process}/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return [_mount(line.rstrip("\n").split(" ")) for line in table]


def mounted_at(point: str) -> Optional[Mount]:
    return next((mount for mount in reversed(mounts()) if mount.point == point), None)


def _mount(fields: list[str]) -> Mount:
    """Optional fields of any number stand before the dash."""
    kind, _, options = fields[fields.index("-", 6) + 1 :][:3]
    return Mount(
        point=_unescape(fields[4]),
        device=fields[2],
        root=_unescape(fields[3]),
        kind=kind,
        options=tuple(options.split(",")),
        flags=tuple(fields[5].split(",")),
    )


def _unescape(text: str) -> str:
    """The kernel writes space, tab, newline and backslash as octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)
