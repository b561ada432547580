"""Where a state may lie: a folder of its own, on a file system that SQLite's log is safe on."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path

from reconciler.model.problem import ProblemError, refuse

MOUNTS = Path("/proc/self/mountinfo")

UNSAFE_TYPES = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre"}
    | {"ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf", "vmhgfs"}
)
"""Locks or shared memory of these reach no further than one machine, or are not kept at all."""

SAFE_FUSE_TYPES = frozenset({"fuse.fuse-overlayfs", "fuse.lxcfs"})


def check_place(folder: Path, mounts: str | None = None) -> None:
    """Raises ProblemError `state_unsafe_place`. `mounts` is the text of /proc/self/mountinfo."""
    mode = folder.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _unsafe(
            f"{folder} can be written by others (mode {stat.S_IMODE(mode):04o})",
            f"chmod 700 {folder}",
        )
    kind = file_system(folder.resolve(), read_mounts() if mounts is None else mounts)
    if kind in UNSAFE_TYPES or (kind.startswith("fuse.") and kind not in SAFE_FUSE_TYPES):
        raise _unsafe(
            f"{folder} lies on {kind}, where SQLite's write-ahead log damages databases",
            "move the state to a local disk: `state` in gpuaas.yaml",
        )


def read_mounts() -> str:
    """Empty where the system has no such list: the journal mode is read back anyway."""
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def file_system(folder: Path, mounts: str) -> str:
    """The type of the file system that holds `folder`; empty if the list does not say."""
    best, kind = -1, ""
    for point, type_ in _parse(mounts):
        depth = len(point.parts)
        # A later mount at the same point lies on top of the earlier one.
        if depth >= best and folder.is_relative_to(point):
            best, kind = depth, type_
    return kind


def _parse(mounts: str) -> Iterator[tuple[Path, str]]:
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if len(fields) >= 5 and rest[0]:
            yield Path(_unescape(fields[4])), rest[0]


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _unsafe(message: str, hint: str) -> ProblemError:
    return refuse("state_unsafe_place", message, hint)
