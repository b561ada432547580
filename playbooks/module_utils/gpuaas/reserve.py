"""Reserve: room on the disk of the host's settings that nobody else can use up.

Whatever takes something away needs no room, but what it writes afterwards does. A piece is a file
with its place on the disk: it becomes what is written, under another name, so that there is no
moment at which somebody else could have it. For programs that write by themselves pieces are given
up, as many as there are. What was used is made again as soon as there is room.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Iterator, Optional

from .probes import OPEN_FOLDER, Probes

FOLDER, SETTINGS = "/etc/gpuaas-reserve", "/etc/gpuaas"
PIECES, SIZE = 64, 16 * 1024
"""A mebibyte in all, and far more files than the release of a tenant writes."""

NAMES = tuple(f"{number:02}" for number in range(PIECES))

FULL = (errno.ENOSPC, errno.EDQUOT)
LEAST_BYTES, LEAST_FILES = 1 << 20, 32
WHOLE = "whole"


def lend(parent: int, name: str, size: int) -> bool:
    """Whether a piece with room for that much stands in this folder now, under this name."""
    folder = _folder() if size <= SIZE else None
    if folder is None:
        return False
    try:
        for piece in _pieces(folder):
            with suppress(OSError):
                os.rename(piece, name, src_dir_fd=folder, dst_dir_fd=parent)
                return True
    finally:
        os.close(folder)
    return False


def give_up() -> bool:
    """Their room is anybody's; whether there was any. Root's own programs have to be quick."""
    folder = _folder()
    if folder is None:
        return False
    try:
        names = os.listdir(folder)
        for name in names:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
        return bool(names)
    finally:
        os.close(folder)


def make_room() -> None:
    """For programs of the host that are about to write: pieces are given up where none is left."""
    with suppress(OSError):
        found = os.statvfs(os.path.dirname(FOLDER))
        # Some file systems make files as they need them, and count none.
        lacks_files = found.f_files > 0 and found.f_ffree < LEAST_FILES
        if lacks_files or found.f_bfree * found.f_frsize < LEAST_BYTES:
            give_up()


def make_whole() -> None:
    """As far as there is room; a host that was never prepared has no settings of ours to keep."""
    if os.geteuid() != 0 or not os.path.isdir(SETTINGS):
        return
    with suppress(FileExistsError):
        os.mkdir(FOLDER, 0o700)
    folder = _folder()
    if folder is None:
        return
    try:
        there = set(_pieces(folder))
        for name in NAMES:
            if name not in there:
                _make(folder, name)
    except OSError:
        # What could not be made is told by the next look.
        pass
    finally:
        os.close(folder)


def missing() -> list[str]:
    """What there will be and is not, for whoever may have to put all back as it was."""
    if os.path.lexists(FOLDER):
        return []
    return [FOLDER, *(f"{FOLDER}/{name}" for name in NAMES)]


def read_reserve(probes: Probes) -> str:
    folder = _folder(probes.root)
    if folder is None:
        return "none"
    try:
        left = len(list(_pieces(folder)))
    finally:
        os.close(folder)
    return WHOLE if left >= PIECES else f"{left} of {PIECES} pieces"


def _folder(root: str = "/") -> Optional[int]:
    """Only one that is root's own, and nobody else's to look into."""
    try:
        folder = os.open(os.path.join(root, FOLDER[1:]), OPEN_FOLDER)
    except OSError:
        return None
    found = os.fstat(folder)
    if found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077:
        return folder
    os.close(folder)
    return None


def _pieces(folder: int) -> Iterator[str]:
    """Those that have all of their room; the rest of a killed write has not."""
    for name in sorted(os.listdir(folder)):
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if (
                stat.S_ISREG(found.st_mode)
                and found.st_size == SIZE
                and found.st_blocks * 512 >= SIZE
                and found.st_nlink == 1
            ):
                yield name


def _make(folder: int, name: str) -> None:
    """Of bytes that no file system can keep in less room."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(os.urandom(SIZE))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
