"""Disks: a file system of fixed size in a file, formatted once, before anybody can see it.

What is formatted is a file of another name that this very call has made, found blank by what the
kernel holds of it and by the host's own probe. The name of the disk is given to it afterwards, so
that whatever has that name is somebody's data and is never formatted.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import Callable, Mapping, Optional

from .files import remove_file
from .mounts import mounted_at
from .paths import Refusal, Tree, parent_of
from .probes import ProbeError, call, failure
from .programs import must

GIB = 1024**3
MAKERS: Mapping[str, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q", "-m", "0", "-E", "nodiscard"),
    "xfs": ("mkfs.xfs", "-q", "-K"),
}
"""Neither gives back the room that its disk has."""

SLACK = 4 * 1024**2
"""What a file system may leave unused at the end of its disk, being made of larger parts."""

EDGE = 1024**2
"""At either end of a disk, where whatever is on it says so."""

NOTHING_FOUND = 2
"""What blkid(8) ends with where it has looked and has found nothing."""


def put_disk(tree: Tree, path: str, filesystem: str, size_gib: int, *, make: bool) -> None:
    """At least of this size; a larger one stays as it is."""
    fresh, size = f"{path}.gpuaas-new", size_gib * GIB
    found = _size(tree, path)
    if found is None and not make:
        raise Refusal("volume_missing", f"{path} is not there, and is never made anew")
    if found is not None and found >= size:
        return
    tree.changed = True
    if tree.dry:
        return
    _check_room(tree, path, size - (found or 0))
    try:
        if found is None:
            remove_file(tree, fresh)
            _make(tree, fresh, filesystem, size)
            _rename(tree, fresh, path)
        else:
            _grow(tree, path, found, size)
    except OSError as error:
        raise _told(error, path) from error
    finally:
        if found is None:
            remove_file(tree, fresh)


def check_fits(tree: Tree, path: str, point: str, filesystem: str) -> None:
    """The file system that is mounted at `point` is as large as its disk."""
    mount = None if tree.dry else mounted_at(point)
    if mount is None or _held(tree, path, filesystem) + SLACK > (_size(tree, path) or 0):
        return
    tree.changed = True
    device = f"/dev/loop{mount.device.partition(':')[2]}"
    must("losetup", "--set-capacity", device)
    if filesystem == "ext4":
        must("resize2fs", device)
    else:
        must("xfs_growfs", "-d", point)


def _make(tree: Tree, path: str, filesystem: str, size: int) -> None:
    with parent_of(tree, path, make=False) as place:
        assert place is not None
        os.close(os.open(place[1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=place[0]))
    _allocate(tree, path, size)
    _with_file(tree, path, os.O_RDWR, lambda file: _format(file, path, filesystem))


def _format(file: int, path: str, filesystem: str) -> None:
    """Through the open file, so that no name can lead to another one."""
    name = f"/proc/{os.getpid()}/fd/{file}"
    try:
        probed = call("blkid", "-p", name)
    except ProbeError as error:
        raise Refusal(
            "volume_not_blank", f"{path}: nobody can tell what is on it: {error}"
        ) from error
    if probed.returncode != NOTHING_FOUND or probed.stdout.strip():
        raise Refusal("volume_not_blank", f"{path}: {failure('blkid', probed)}")
    size = os.fstat(file).st_size
    if any(os.pread(file, EDGE, at).strip(b"\0") for at in (0, max(0, size - EDGE))):
        raise Refusal("volume_not_blank", f"{path}: something is written on it")
    must(*MAKERS[filesystem], name)
    os.fsync(file)


def _allocate(tree: Tree, path: str, size: int) -> None:
    """Room for all of it, so that what was promised cannot run out underneath somebody."""
    _with_file(tree, path, os.O_WRONLY, lambda file: os.posix_fallocate(file, 0, size))


def _grow(tree: Tree, path: str, before: int, size: int) -> None:
    """By all of it, or it is as large as before: what is given back lies beyond its end."""
    try:
        _allocate(tree, path, size)
    except OSError:
        _with_file(tree, path, os.O_WRONLY, lambda file: os.truncate(file, before))
        raise


def _check_room(tree: Tree, path: str, more: int) -> None:
    """Asked before, so that nobody else on that file system runs out of it meanwhile."""
    with parent_of(tree, path, make=False) as place:
        room = os.statvfs(place[0]) if place else None
    if room is None or room.f_bavail * room.f_frsize < more:
        raise Refusal("volume_without_room", f"no room for {more // GIB} GiB more at {path}")


def _with_file(tree: Tree, path: str, flags: int, work: Callable[[int], None]) -> None:
    with parent_of(tree, path, make=False) as place:
        if place is None:
            raise Refusal("volume_missing", f"{path} is not there")
        file = os.open(place[1], flags | os.O_NOFOLLOW, dir_fd=place[0])
        try:
            work(file)
        finally:
            os.close(file)


def _rename(tree: Tree, fresh: str, path: str) -> None:
    with parent_of(tree, path, make=False) as place:
        assert place is not None
        names = (fresh.rpartition("/")[2], place[1])
        os.rename(*names, src_dir_fd=place[0], dst_dir_fd=place[0])
        os.fsync(place[0])


def _size(tree: Tree, path: str) -> Optional[int]:
    with parent_of(tree, path, make=False) as place:
        if place is None:
            return None
        try:
            found = os.stat(place[1], dir_fd=place[0], follow_symlinks=False)
        except FileNotFoundError:
            return None
    if not stat.S_ISREG(found.st_mode):
        raise Refusal("volume_not_blank", f"{path} is no disk of ours")
    return found.st_size


def _held(tree: Tree, path: str, filesystem: str) -> int:
    """Bytes that the file system on the disk knows of, by its superblock."""
    found: list[int] = []

    def read(file: int) -> None:
        if filesystem == "ext4":
            blocks, _, _, _, _, log = struct.unpack("<6I", os.pread(file, 24, 1024 + 4))
            found.append(blocks * (1024 << log))
        else:
            size, blocks = struct.unpack(">IQ", os.pread(file, 12, 4))
            found.append(blocks * size)

    _with_file(tree, path, os.O_RDONLY, read)
    return found[0]


def _told(error: OSError, path: str) -> Refusal:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return Refusal("volume_without_room", f"no room for {path}")
    return Refusal("verb_failed", f"{path}: {error}")
