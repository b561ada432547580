"""Files and folders made as asked: compared first, then written whole or not at all."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Optional

from . import reserve
from .digests import sha256
from .paths import FOLDER, Refusal, Tree, holder, parent_of
from .probes import opener, owner_suffix, path_fact, printable, unless_gone

WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Owner = tuple[int, int]
"""A uid and a gid."""


def put_folder(tree: Tree, path: str, mode: str, owner: Optional[Owner] = None) -> None:
    """A folder of this mode, and of this owner or else ours; what it holds is not ours."""
    owner = owner or _ours()
    with parent_of(tree, path, make=True) as place:
        fact = _fact(place)
        if fact == f"dir {mode}{owner_suffix(*owner)}":
            return
        if fact is not None and not fact.startswith("dir "):
            raise Refusal("path_unsafe", f"{path} is no folder but {fact}")
        tree.changed = True
        if place is not None and not tree.dry:
            _make_folder(*place, int(mode, 8), owner)


def put_link(tree: Tree, path: str, target: str) -> None:
    """A symbolic link to `target`; whatever else stands there is not ours to remove."""
    with parent_of(tree, path, make=True) as place:
        fact = _fact(place)
        if fact == f"link {printable(target)}":
            return
        if fact is not None and not fact.startswith("link "):
            raise Refusal("path_unsafe", f"{path} is no link but {fact}")
        tree.changed = True
        if place is not None and not tree.dry:
            parent, name = place
            if fact is not None:
                os.unlink(name, dir_fd=parent)
            os.symlink(target, name, dir_fd=parent)
            os.fsync(parent)


def read_bytes(tree: Tree, path: str) -> Optional[bytes]:
    """What is in a regular file; None if it is not there."""
    with parent_of(tree, path, make=False) as place:
        fact = _fact(place)
        if place is None or fact is None:
            return None
        if not fact.startswith("file "):
            raise Refusal("path_unsafe", f"{path} is no file but {fact}")
        with open(place[1], "rb", opener=opener(place[0])) as file:
            return file.read()


def names_of(tree: Tree, path: str, uid: int) -> list[str]:
    """What stands directly in a folder and belongs to a uid, or to the inside of its containers."""
    with parent_of(tree, f"{path}/", make=False) as place:
        if place is None:
            return []
        found = []
        for name in os.listdir(place[0]):
            with unless_gone():
                status = os.stat(name, dir_fd=place[0], follow_symlinks=False)
                if holder(status.st_uid) == uid:
                    found.append(name)
        return found


def put_bytes(tree: Tree, path: str, data: bytes) -> None:
    """Other content for a file that others have made: its mode and owner stay."""
    with parent_of(tree, path, make=False) as place:
        tree.changed = True
        if place is not None and not tree.dry:
            mode, owner = 0o644, _ours()
            with suppress(FileNotFoundError):
                status = os.stat(place[1], dir_fd=place[0], follow_symlinks=False)
                mode, owner = stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid)
            replace(place, data, mode, owner, borrows=tree.borrows)


def read_by(gid: int) -> Owner:
    """Ours, and read by this group; by our own where it is 0."""
    if gid and gid < 1000:
        raise Refusal("item_invalid", f"no group of a tenant: {gid}")
    return (os.geteuid(), gid) if gid else _ours()


def put_file(tree: Tree, path: str, content: str, mode: str, owner: Optional[Owner] = None) -> None:
    """Write a regular file of this content, mode and owner (by default ours), if it differs.

    A reader sees the old file or the new one, whole.
    """
    owner = owner or _ours()
    data = content.encode("utf-8")
    with parent_of(tree, path, make=True) as place:
        fact = _fact(place)
        if fact == f"file {mode} sha256:{sha256(data).hexdigest()}{owner_suffix(*owner)}":
            return
        if fact is not None and not fact.startswith(("file ", "link ")):
            raise Refusal("path_unsafe", f"{path} is no file but {fact}")
        if place is not None and not tree.dry:
            replace(place, data, int(mode, 8), owner, borrows=tree.borrows)
        tree.changed = True


def remove_file(tree: Tree, path: str) -> None:
    """No file there, nor the rest of a killed write of it.

    A link goes, what it leads to stays; a folder is not ours to remove.
    """
    with parent_of(tree, path, make=False) as place:
        if place is None:
            return
        parent, name = place
        for one in (_fresh(name), name):
            fact = _fact((parent, one))
            if fact is None:
                continue
            if fact.startswith("dir "):
                raise Refusal("path_not_removed", f"{path} is a folder where a file was made")
            try:
                if not tree.dry:
                    os.unlink(one, dir_fd=parent)
                    os.fsync(parent)
            except OSError as error:
                raise Refusal("path_not_removed", f"{path}: {error.strerror}") from error
            tree.changed = True


def fact_of(tree: Tree, path: str) -> Optional[str]:
    """What the observe code would say of it; None = not there."""
    with parent_of(tree, path, make=False) as place:
        return _fact(place)


def _ours() -> Owner:
    return os.geteuid(), os.getegid()


def _fact(place: Optional[tuple[int, str]]) -> Optional[str]:
    if place is None:
        return None
    try:
        return path_fact(*place)
    except FileNotFoundError:
        return None


def _make_folder(parent: int, name: str, mode: int, owner: Owner) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
    folder = os.open(name, FOLDER, dir_fd=parent)
    try:
        os.fchown(folder, *owner)
        os.fchmod(folder, mode)
        os.fsync(parent)
    finally:
        os.close(folder)


def _fresh(name: str) -> str:
    """The new file's name until it is whole: fixed, so that kills leave at most one of it."""
    return f".{name}.gpuaas-new"


def replace(
    place: tuple[int, str], data: bytes, mode: int, owner: Owner, *, borrows: bool = False
) -> None:
    """On a full disk the old file stays, unless what is written borrows room from the reserve."""
    parent, name = place
    fresh = _fresh(name)
    _forget(parent, fresh)
    try:
        try:
            _write(_opened(parent, fresh, os.O_EXCL), data, mode, owner)
        except OSError as error:
            _forget(parent, fresh)
            if not (borrows and error.errno in reserve.FULL):
                raise
            # Room that is given up may be somebody else's a moment later; what is lent is not.
            if not reserve.lend(parent, fresh, len(data)) and not reserve.give_up():
                raise
            _write(_opened(parent, fresh, 0), data, mode, owner)
        os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=parent)
        raise
    os.fsync(parent)


def write_over(place: tuple[int, str], data: bytes) -> None:
    """Other bytes for a file where they stand, as many as there were: that needs no room."""
    parent, name = place
    with open(os.open(name, WRITE, dir_fd=parent), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _opened(parent: int, name: str, more: int) -> int:
    return os.open(name, WRITE | os.O_CREAT | more, 0o600, dir_fd=parent)


def _write(file: int, data: bytes, mode: int, owner: Owner) -> None:
    """What is lent keeps its room until all of it is written, and loses the rest then."""
    with open(file, "wb") as opened:
        opened.write(data)
        opened.truncate()
        os.fchown(file, *owner)
        os.fchmod(file, stat.S_IMODE(mode))
        os.fsync(file)


def _forget(parent: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)
