"""Removes folders with everything in them, by open folders, and nothing else.

Never through a link, never across or over a mount; what cannot be removed is said and stays. Each
folder is taken before it is emptied, so that nobody who still works in there adds to it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from typing import List, NamedTuple

from .files import fact_of
from .mounts import mounts
from .paths import FOLDER, Refusal, Tree, parent_of
from .probes import unless_gone
from .projects import leave_project

MAX_DEPTH = 256
MAX_BUSY = 1000
BUSY = frozenset({errno.ENOTEMPTY, errno.EISDIR, errno.EEXIST})
"""What somebody has changed in the moment before its folder was taken."""


def remove_folder(tree: Tree, path: str) -> None:
    fact = fact_of(tree, path)
    if fact is None:
        return
    if not fact.startswith("dir "):
        raise _kept(path, f"a {fact.split(' ')[0]} stands where a folder was made")
    with parent_of(tree, path, make=False) as place:
        if place is None:
            return
        parent, name = place
        try:
            folder = os.open(name, FOLDER, dir_fd=parent)
            try:
                _refuse_mounts(folder, path)
                tree.changed = True
                if tree.dry:
                    return
                top = Top(folder, os.fstat(folder).st_dev, [])
                # Only now that nobody else can hand it on again: what is nested too deep is moved
                # into it, whatever project its owner has given to that.
                _take(folder)
                leave_project(folder)
                while os.listdir(folder):
                    _empty(folder, path, top, MAX_DEPTH)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=parent)
            os.fsync(parent)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise _kept(path, f"{where}{error.strerror}") from error


class Top(NamedTuple):
    """The open folder that is removed, the file system that it is on, and what was busy in it."""

    folder: int
    device: int
    busy: List[str]


def _empty(folder: int, path: str, top: Top, depth: int) -> None:
    """Depth first by open folders, so that nobody can put a link in between.

    What is nested too deep is moved to the top for the next round: nobody may hold up their end so.
    """
    if os.fstat(folder).st_dev != top.device:
        raise _kept(path, "on another file system")
    _take(folder)
    for name in os.listdir(folder):
        try:
            with unless_gone():
                _remove(folder, name, f"{path}/{name}", top, depth)
        except OSError as error:
            if error.errno not in BUSY or len(top.busy) >= MAX_BUSY:
                raise
            top.busy.append(name)


def _take(folder: int) -> None:
    """First its owner and then its mode, which its owner could change back.

    Whoever stands in it or has it open still does, and can put nothing more there.
    """
    status = os.fstat(folder)
    if status.st_uid != os.geteuid() and os.geteuid() == 0:
        os.fchown(folder, 0, 0)
    if stat.S_IMODE(status.st_mode) != 0o700:
        os.fchmod(folder, 0o700)


def _remove(folder: int, name: str, path: str, top: Top, depth: int) -> None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode) and depth == 0:
        os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top.folder)
    elif stat.S_ISDIR(status.st_mode):
        inner = os.open(name, FOLDER, dir_fd=folder)
        try:
            _empty(inner, path, top, depth - 1)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _refuse_mounts(folder: int, path: str) -> None:
    """Nothing is removed, not even a part, where something is mounted at or below the folder."""
    place = os.readlink(f"/proc/self/fd/{folder}")
    for point in {mount.point for mount in mounts()}:
        if point == place or point.startswith(place + "/"):
            raise _kept(path + point[len(place) :], "something is mounted here")


def _kept(path: str, why: str) -> Refusal:
    return Refusal("path_not_removed", f"{path}: {why}")
