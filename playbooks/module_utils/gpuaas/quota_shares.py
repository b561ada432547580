"""Quota shares: how much of each file system a tenant may fill, by its slots.

Nine tenths of a file system are shared out by slots, so that all tenants together leave root the
rest. The record says what was put in force where; the file systems say what is.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple, Optional

from .mounts import Mount, mounts
from .paths import ALLOCATION_ID, INSTANCES, LOGIN, UIDS, Refusal
from .platform_state import read_descriptor
from .probes import open_below
from .quotactl import KIB, NO_LIMITS, PROJECT, Limits, device_of, enforced

FOLDER = "/etc/gpuaas/quotas"
SCRATCH = "var/lib/gpuaas/scratch"
PARENTS = ("home", SCRATCH, f"{INSTANCES[1:]}/tmp", f"{INSTANCES[1:]}/var-tmp")
"""Folders in which each tenant has one of its own, and no limit of memory counts what it holds."""

BY_PROJECT = frozenset({"prjquota", "pquota"})
GRAIN = 64 * KIB
"""No file system has larger blocks, and so none rounds a multiple of it."""

PROJECTS = range(1 << 16, 1 << 31)
"""Those that are drawn: below are uids, which everybody knows, and numbers of the host's own."""

NUMBERS = range(1 << 63)
"""What a limit may be."""

FILE = re.compile(r"(\d{1,5})\.json")


class Room(NamedTuple):
    """What of a file system of this size somebody may have."""

    size: int
    limits: Limits


class Share(NamedTuple):
    """A tenant's share: its slots, `of` those of the node.

    By the place where a file system is mounted, it has the room that was given, and why it is not
    in force there. `project` is the id by which its files are counted, 0 where none was drawn. What
    is told of this file is its digest, which `salt` keeps from being guessed.
    """

    id: str
    login: str
    uid: int
    slots: int
    of: int
    rooms: dict[str, Room]
    failed: dict[str, str]
    project: int = 0
    salt: str = ""

    def number(self, kind: int) -> int:
        """Whom the file system bounds."""
        return self.project if kind == PROJECT else self.uid

    @property
    def path(self) -> str:
        return path_of(self.uid)

    @property
    def places(self) -> dict[str, str]:
        """One below each of the parents."""
        return {
            parent: f"/{parent}/{self.id if parent == SCRATCH else self.login}"
            for parent in PARENTS
        }

    @property
    def text(self) -> str:
        return json.dumps(self._asdict(), sort_keys=True, separators=(",", ":")) + "\n"

    def room_in(self, place: str, before: Optional[Room]) -> Room:
        """The size of the file system that a folder is on.

        If the size is the same as before, the old figures stay: some file systems derive the number
        of files they can hold from what is free.
        """
        found = os.statvfs(place)
        size = found.f_blocks * found.f_frsize
        if before is not None and before.size == size:
            return before
        if self.slots >= self.of:
            return Room(size, NO_LIMITS)
        room = max(GRAIN, self._part(size) // GRAIN * GRAIN)
        files = max(1, self._part(found.f_files)) if found.f_files else 0
        return Room(size, Limits(room // KIB, files))

    def _part(self, whole: int) -> int:
        return whole * 9 * self.slots // (10 * self.of)


def path_of(uid: int) -> str:
    return f"{FOLDER}/{uid}.json"


def share_of(item: dict[str, Any]) -> Share:
    """As an item of work says it; raises Refusal where that is none."""
    account = item["account"]
    slots, of = account["slots"], account["nodeSlots"]
    if not 0 < slots <= of:
        raise Refusal("item_invalid", f"no share: {slots} slots of {of}")
    return Share(item["id"], item["login"], account["uid"], slots, of, {}, {})


def read_shares(root: str) -> dict[int, Optional[Share]]:
    """By uid; None for one that nobody can read."""
    folder = open_below(root, FOLDER[1:])
    if folder is None:
        return {}
    try:
        found = [match for name in os.listdir(folder) if (match := FILE.fullmatch(name))]
        return {int(m[1]): _read(read_descriptor(folder, m[0]), int(m[1])) for m in found}
    finally:
        os.close(folder)


def _read(told: Any, uid: int) -> Optional[Share]:
    try:
        rooms = {
            str(point): Room(int(size), Limits(*map(_number, limits)))
            for point, (size, limits) in told["rooms"].items()
        }
        failed = {str(point): str(why) for point, why in told["failed"].items()}
        project, salt = told.get("project", 0), str(told.get("salt", ""))
        # Whatever is no number is looked for in a range one by one.
        project = project if isinstance(project, int) and project in PROJECTS else 0
        slots = told["slots"], told["of"]
        share = Share(told["id"], told["login"], uid, *slots, rooms, failed, project, salt)
        named = ALLOCATION_ID.fullmatch(share.id) and LOGIN.fullmatch(share.login)
        counted = all(isinstance(one, int) for one in (*slots, told.get("project", 0)))
        return share if named and counted and told["uid"] == uid and uid in UIDS else None
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return None


def _number(told: Any) -> int:
    number = int(told)
    if number not in NUMBERS:
        raise ValueError("no number that a kernel takes")
    return number


class FileSystem(NamedTuple):
    """One that tenants have places on: a folder on it, its device, and by what it bounds anybody.

    `why` says in the kernel's words why it does not, where it is mounted so that it should.
    """

    mount: Mount
    folder: str
    device: str = ""
    kinds: frozenset[int] = frozenset()
    why: str = ""

    @property
    def point(self) -> str:
        return self.mount.point


def file_systems(root: str) -> dict[int, FileSystem]:
    """By the device number of their folders."""
    first: dict[int, str] = {}
    for parent in PARENTS:
        folder = os.path.join(root, parent)
        if os.path.isdir(folder):
            first.setdefault(os.stat(folder).st_dev, folder)
    by_device: dict[str, Mount] = {}
    # The same one at every boot, in whatever order they are mounted.
    for mount in sorted(mounts(), key=lambda one: (len(one.point), one.point)):
        by_device.setdefault(mount.device, mount)
    found = {}
    for number, folder in first.items():
        mounted = by_device.get(f"{os.major(number)}:{os.minor(number)}")
        if mounted is not None:
            found[number] = _asked(mounted, folder)
    return found


def _asked(mount: Mount, folder: str) -> FileSystem:
    if not BY_PROJECT & {*mount.options}:
        return FileSystem(mount, folder)
    try:
        device = device_of(mount)
        kinds = enforced(device)
    except OSError as error:
        return FileSystem(mount, folder, why=why_of(error))
    if PROJECT not in kinds:
        return FileSystem(mount, folder, device, why="it counts and bounds nobody")
    return FileSystem(mount, folder, device, kinds)


def why_of(error: OSError) -> str:
    return error.strerror or str(error)
