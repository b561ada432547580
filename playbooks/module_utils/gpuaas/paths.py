"""Paths on a host where an allocation may be worked on, reached without following links.

Names are judged again here, whatever was judged before; no link is followed below the root.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import Iterator, Optional

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ALLOCATION_ID = re.compile(r"[a-z2-7]{10}")
UIDS = range(1000, 60000)
"""Those a tenant may have: below are services, above systemd's own and subordinate ids."""

SUBIDS = 1 << 16
"""How many numbers there are inside of a tenant's containers."""

UNITS, INSTANCES = "/etc/systemd/system", "/var/lib/gpuaas/instances"
PRIVATE = ("shm", "tmp", "var-tmp", "session", "data", "datasets", "mnt", "workspace")
"""Folders of which each tenant sees one of its own."""

LOGIN = re.compile(r"[a-z][a-z0-9-]{0,26}-[a-z2-7]{4}")


class Refusal(Exception):
    """Why something was not done, with a stable code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Tree:
    """One root folder, open for one item. In a dry run nothing is written, only `changed` set.

    `said` is what else its receipt is to tell, by name. What `borrows` may write by the host's
    reserve where the disk is full.
    """

    def __init__(self, root: int, dry: bool) -> None:
        self.root = root
        self.dry = dry
        self.changed = False
        self.said: dict[str, str] = {}
        self.borrows = False

    @property
    def whole_host(self) -> bool:
        """Whether the host's own systemd, accounts and processes are those of this root."""
        return os.path.samestat(os.fstat(self.root), os.stat("/"))

    @property
    def path(self) -> str:
        return os.readlink(f"/proc/self/fd/{self.root}")


class Places:
    """The only paths that belong to an allocation, by the verb that keeps them.

    `uid` is 0 where it has no account.
    """

    def __init__(self, allocation: str, login: str, uid: int = 0) -> None:
        if not ALLOCATION_ID.fullmatch(allocation):
            raise Refusal("item_invalid", f"no allocation id: {allocation!r}")
        if not LOGIN.fullmatch(login):
            raise Refusal("item_invalid", f"no login: {login!r}")
        self.folders: tuple[str, ...] = (f"/home/{login}", f"/var/lib/gpuaas/scratch/{allocation}")
        self.files: tuple[str, ...] = (
            f"/etc/gpuaas/allocations/{allocation}.json",
            f"/etc/gpuaas/runtime/allocations/{allocation}.env",
        )
        self.environments: tuple[str, ...] = (self.files[1],)
        self.mark = f"/etc/gpuaas/runtime/allocations/{allocation}.restart"
        self.files += (self.mark,)
        self.keys = (f"/etc/gpuaas/ssh/{login}",)
        if uid:
            self._add_account(login, uid)

    def _add_account(self, login: str, uid: int) -> None:
        if uid not in UIDS:
            raise Refusal("item_invalid", f"no uid of a tenant: {uid}")
        instances = [f"{INSTANCES}/{place}/{login}" for place in PRIVATE]
        units = [f"{UNITS}/user-{uid}.slice.d", f"{UNITS}/user@{uid}.service.d"]
        self.folders += (*instances, *units, f"/run/systemd/system/user-{uid}.slice.d")
        self.files += (
            *(f"{unit}/60-gpuaas.conf" for unit in units),
            f"{UNITS}/{mount_unit(login)}",
            f"/etc/gpuaas/devices/{uid}.json",
            f"/etc/gpuaas/loopback/{uid}.nft",
            f"/etc/gpuaas/quotas/{uid}.json",
            f"{INSTANCES}/session/{login}/env",
        )
        self.environments += self.files[-1:]


def inside(uid: int) -> tuple[int, int]:
    """The first and the last number inside of a tenant's containers."""
    return uid * SUBIDS, uid * SUBIDS + SUBIDS - 1


def holder(uid: int) -> int:
    """The tenant that such a number belongs to; any other one itself."""
    return uid // SUBIDS if uid // SUBIDS in UIDS else uid


def unit_name(place: str) -> str:
    """systemd names a mount unit by its place, and writes a dash in there as `\\x2d`."""
    return place.strip("/").replace("-", "\\x2d").replace("/", "-") + ".mount"


def mount_unit(login: str) -> str:
    """The unit that mounts what the login sees as /dev/shm."""
    return unit_name(f"{INSTANCES}/shm/{login}")


def owned(path: str, places: tuple[str, ...]) -> str:
    """`path`, if it is one of these places to the letter."""
    if path not in places:
        raise Refusal("path_unsafe", f"{path!r} is no place of this allocation")
    return path


@contextmanager
def parent_of(tree: Tree, path: str, *, make: bool) -> Iterator[Optional[tuple[int, str]]]:
    """The open folder that holds `path`, and its name in there; None if the folder is not there.

    With `make`, missing folders on the way are made, open to read for all.
    """
    *way, name = path.lstrip("/").split("/")
    opened = [os.dup(tree.root)]
    try:
        for part in way:
            inner = _enter(opened[-1], part, path, make and not tree.dry)
            if inner is None:
                break
            opened.append(inner)
        yield (opened[-1], name) if len(opened) > len(way) else None
    finally:
        for folder in opened:
            os.close(folder)


def _enter(folder: int, part: str, path: str, make: bool) -> Optional[int]:
    try:
        return os.open(part, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            return None
    except OSError as error:
        raise Refusal(
            "path_unsafe", f"{path}: {part} cannot be entered: {error.strerror}"
        ) from error
    os.mkdir(part, 0o755, dir_fd=folder)
    made = os.open(part, FOLDER, dir_fd=folder)
    os.fchmod(made, 0o755)
    return made
