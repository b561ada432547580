"""Project ids: numbers by which a file system counts files and folders, whoever owns them.

What is made in a folder that hands its project on belongs to it from the first byte. Whoever owns a
file can give it another project (chattr -p): this counts what people do, and holds nobody who wants
to escape.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
from fcntl import ioctl
from typing import Iterator, NamedTuple

from .paths import FOLDER, holder
from .probes import OPEN_FILE, unless_gone

GET, SET = 0x801C581F, 0x401C5820
FORM = struct.Struct("=5I8x")
HANDED_ON = 0x200
MAX_DEPTH = 256
ANOTHERS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EAGAIN, errno.ENXIO})
"""Something else has its name by now, or its owner lets nobody open it at once."""


class Late(Exception):
    """There is more than there was time for."""


class Project(NamedTuple):
    """`handed_on` says whether what is made in a folder belongs to it as well."""

    id: int
    handed_on: bool


class Owned(NamedTuple):
    """The number of a project, and the uid of whom its folders are."""

    id: int
    uid: int


def project_of(opened: int) -> Project:
    """Of an open file or folder; raises OSError on file systems that know of none."""
    flags, _, _, id, _ = _attributes(opened)
    return Project(id, bool(flags & HANDED_ON))


def belongs(folder: int, id: int) -> bool:
    return project_of(folder) == (id, True)


def put_project(opened: int, project: Project) -> None:
    """Everything else that is said of it stays as it is."""
    flags, extent, extents, _, copied = _attributes(opened)
    flags = flags | HANDED_ON if project.handed_on else flags & ~HANDED_ON
    ioctl(opened, SET, FORM.pack(flags, extent, extents, project.id, copied))


def leave_project(folder: int) -> None:
    """What is moved into it may be of any project from now on."""
    try:
        if project_of(folder).handed_on:
            put_project(folder, Project(0, False))
    except OSError:
        # It knows of no projects, and refuses nothing because of one.
        pass


def put_tree(folder: int, whose: Owned, until: float, depth: int = MAX_DEPTH) -> None:
    """All below it and then itself, so that one that belongs is done with all that it holds.

    A broken-off one is taken up where it ended. Nothing is followed, and what is on another file
    system is left alone, as are others' files with names elsewhere: somebody may have given them
    one in here. Raises Late.
    """
    device = os.fstat(folder).st_dev
    for name, is_folder in _names(folder, until):
        with unless_gone():
            try:
                inner = os.open(name, FOLDER if is_folder else OPEN_FILE, dir_fd=folder)
            except OSError as error:
                if error.errno in ANOTHERS:
                    continue
                raise
            try:
                if os.fstat(inner).st_dev != device:
                    continue
                if not is_folder:
                    _put_file(inner, whose)
                elif depth and not belongs(inner, whose.id):
                    put_tree(inner, whose, until, depth - 1)
            finally:
                os.close(inner)
    put_project(folder, Project(whose.id, True))


def _names(folder: int, until: float) -> Iterator[tuple[str, bool]]:
    """Of files and folders, as the folder itself tells them apart: nobody is asked."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if time.monotonic() > until:
                raise Late
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder or entry.is_file(follow_symlinks=False):
                yield entry.name, is_folder


def _put_file(file: int, whose: Owned) -> None:
    status = os.fstat(file)
    strange = status.st_nlink > 1 and holder(status.st_uid) != whose.uid
    if stat.S_ISREG(status.st_mode) and not strange and project_of(file).id != whose.id:
        put_project(file, Project(whose.id, False))


def _attributes(opened: int) -> tuple[int, int, int, int, int]:
    """Flags, size of extents, how many, project, size of copied extents."""
    flags, extent, extents, id, copied = FORM.unpack(ioctl(opened, GET, bytes(FORM.size)))
    return flags, extent, extents, id, copied
