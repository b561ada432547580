"""Safe places for a state: a folder that only we can change, on a suitable file system.

Nobody else can replace the folder either, and SQLite's log is safe on its file system.
"""

from __future__ import annotations

import grp
import os
import pwd
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
    """Check the folder of a state. Raises ProblemError `state_unsafe_place`.

    `mounts` is the text of /proc/self/mountinfo.
    """
    _check_ours(folder, folder.lstat())
    _check_way(folder)
    kind = file_system(folder.resolve(), read_mounts() if mounts is None else mounts)
    if kind in UNSAFE_TYPES or (kind.startswith("fuse.") and kind not in SAFE_FUSE_TYPES):
        raise _unsafe(
            f"{folder} lies on {kind}, where SQLite's write-ahead log damages databases",
            "move the state to a local disk: `state` in gpuaas.yaml",
        )


def check_file(path: Path) -> None:
    """Raises ProblemError `state_unsafe_place` for a file that is a link or not ours alone."""
    _check_ours(path, path.lstat())


def _check_ours(path: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _unsafe(f"{path} is a link", "name the place itself: `state` in gpuaas.yaml")
    if found.st_uid != os.geteuid():
        raise _unsafe(
            f"{path} belongs to {_login(found.st_uid)}, you are {_login(os.geteuid())}",
            f"run gpuaas as {_login(found.st_uid)}, or give it to you by chown",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _unsafe(
            f"{path} can be written by others (mode {stat.S_IMODE(found.st_mode):04o})",
            f"chmod go-w {path}",
        )


def _check_way(folder: Path) -> None:
    """Check the folders above: whoever can write there can replace ours, whatever its mode is."""
    for way in {folder.absolute(), folder.resolve()}:
        for child, parent in zip((way, *way.parents), way.parents, strict=False):
            found = parent.stat()
            if not _others_write(found):
                continue
            if found.st_mode & stat.S_ISVTX and child.lstat().st_uid in (0, os.geteuid()):
                continue
            raise _unsafe(
                f"{parent} can be written by others (mode {stat.S_IMODE(found.st_mode):04o}), who "
                f"could put another in the place of {child.name}",
                f"chmod go-w {parent}, or keep the state elsewhere: `state` in gpuaas.yaml",
            )


def _others_write(found: os.stat_result) -> bool:
    by_group = found.st_mode & stat.S_IWGRP and not _is_ours_alone(found.st_gid)
    return bool(found.st_mode & stat.S_IWOTH or by_group)


def _is_ours_alone(gid: int) -> bool:
    """Whether it is the private group that many systems give to each user."""
    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    members = set(group.gr_mem) - {me.pw_name}
    return gid == me.pw_gid and group.gr_name == me.pw_name and not members


def _login(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def read_mounts() -> str:
    """The mount list; empty where the system has none: the journal mode is read back anyway."""
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
