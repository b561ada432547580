"""A tenant's home: made once with a copy of /etc/skel, and from then on the tenant's own."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Optional

from .files import Owner, put_folder, replace
from .paths import FOLDER, Refusal, Tree, parent_of
from .probes import opener

SKEL = "/etc/skel"
MAX_DEPTH = 8


def put_home(tree: Tree, path: str, mode: str, owner: Owner) -> None:
    """A home that is root's is one whose making was broken off: it is made to the end."""
    found = _owner_of(tree, path)
    if found not in (None, os.geteuid(), owner[0]):
        raise Refusal("account_conflict", f"{path} belongs to uid {found}; it is not taken over")
    if found != owner[0]:
        put_folder(tree, path, "0700")
        if not tree.dry:
            _fill(tree, path, owner)
    put_folder(tree, path, mode, owner)


def _owner_of(tree: Tree, path: str) -> Optional[int]:
    with parent_of(tree, path, make=False) as place:
        if place is None:
            return None
        with suppress(FileNotFoundError):
            return os.stat(place[1], dir_fd=place[0], follow_symlinks=False).st_uid
    return None


def _fill(tree: Tree, path: str, owner: Owner) -> None:
    with (
        parent_of(tree, SKEL + "/", make=False) as skel,
        parent_of(tree, path + "/", make=False) as home,
    ):
        if skel is not None and home is not None:
            _copy(skel[0], home[0], owner, MAX_DEPTH)


def _copy(source: int, target: int, owner: Owner, depth: int) -> None:
    for name in os.listdir(source) if depth else ():
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode) & 0o777
        if stat.S_ISDIR(status.st_mode):
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=target)
            inner, made = (os.open(name, FOLDER, dir_fd=folder) for folder in (source, target))
            try:
                _copy(inner, made, owner, depth - 1)
                os.fchown(made, *owner)
                os.fchmod(made, mode)
            finally:
                os.close(inner)
                os.close(made)
        elif stat.S_ISLNK(status.st_mode):
            with suppress(FileExistsError):
                os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            os.chown(name, *owner, dir_fd=target, follow_symlinks=False)
        elif stat.S_ISREG(status.st_mode):
            with open(name, mode="rb", opener=opener(source)) as file:
                replace((target, name), file.read(), mode, owner)
