"""Quotas: each tenant's share of what its places lie on, put in force and lifted.

By project, which is the tenant's uid, wherever the file system bounds anybody by that; and by uid
as well where it can and no data of storage lies on it, since whoever owns a file may give it
another project. A kernel that refuses keeps nobody from being provided: it is told of.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress

from .attachments import records
from .files import put_file, put_folder
from .mounts import mounts
from .paths import INSTANCES, Tree, parent_of
from .probes import Probes
from .projects import Late, belongs, put_tree
from .quotactl import NO_LIMITS, USER, Limits, limits_of, set_limits
from .shares import FOLDER, FileSystem, Room, Share, file_systems, read_shares, why_of

SECONDS = 20.0
"""For giving a project to what was there before: a provide is not held up by many files."""

LATE = "more files than can be counted in time; the next provide goes on"
SHARED_MODE = "1777"
"""Of what a tenant sees as /tmp: as the host's own, which it is made after."""


def put(tree: Tree, share: Share, seconds: float = SECONDS) -> None:
    """In force wherever it can be; written is what was, and why not."""
    if not tree.whole_host:
        return
    known = read_shares(tree.path).get(share.uid)
    same = known is not None and (known.slots, known.of) == (share.slots, share.of)
    before = known.rooms if known is not None and same else {}
    stored, until = storing(tree.path), time.monotonic() + seconds
    rooms: dict[str, Room] = {}
    failed: dict[str, str] = {}
    for number, system in file_systems(tree.path).items():
        if system.kinds:
            try:
                room = share.room_in(system.folder, before.get(system.point))
                rooms[system.point] = room
                _bound(tree, system, share.uid, wanted(system, room.limits, stored))
                _count(tree, share, number, until)
            except Late:
                failed[system.point] = LATE
            except OSError as error:
                failed[system.point] = why_of(error)
    put_folder(tree, FOLDER, "0700")
    put_file(tree, share.path, share._replace(rooms=rooms, failed=failed).text, "0600")


def renew(tree: Tree) -> None:
    """Of everybody, where data of storage has come or gone: it is nobody's share."""
    if tree.whole_host:
        for share in read_shares(tree.path).values():
            if share is not None:
                put(tree, share, seconds=0)


def lift(tree: Tree, uid: int) -> None:
    """Nobody is bounded by this number any more; as it is never given again, none waits for it."""
    if not tree.whole_host:
        return
    for system in file_systems(tree.path).values():
        with suppress(OSError):
            _bound(tree, system, uid, dict.fromkeys(system.kinds, NO_LIMITS))


def _bound(tree: Tree, system: FileSystem, uid: int, wanted: dict[int, Limits]) -> None:
    for kind, limits in wanted.items():
        if limits_of(system.device, kind, uid) != limits:
            if not tree.dry:
                set_limits(system.device, kind, uid, limits)
            tree.changed = True


def wanted(system: FileSystem, limits: Limits, stored: frozenset[str]) -> dict[int, Limits]:
    """By kind. Of data on a storage a tenant may own as much as there is room for."""
    by_uid = NO_LIMITS if system.mount.device in stored else limits
    return {kind: by_uid if kind == USER else limits for kind in sorted(system.kinds)}


def _count(tree: Tree, share: Share, number: int, until: float) -> None:
    """Its places on this file system, with what lay there before."""
    for place in share.places.values():
        if place.startswith(f"{INSTANCES}/"):
            _make(tree, place, number)
        with parent_of(tree, f"{place}/", make=False) as opened:
            if opened is None or os.fstat(opened[0]).st_dev != number:
                continue
            if belongs(opened[0], share.uid):
                continue
            if inner := [one.point for one in mounts() if one.point.startswith(f"{place}/")]:
                raise OSError(errno.EBUSY, f"something is mounted at {inner[0]}")
            if not tree.dry:
                put_tree(opened[0], share.uid, until)
            tree.changed = True


def _make(tree: Tree, place: str, number: int) -> None:
    """Else the first session would make it, and nobody would count what is in there."""
    with parent_of(tree, place, make=False) as opened:
        if opened is None or os.fstat(opened[0]).st_dev != number:
            return
        with suppress(FileNotFoundError):
            os.stat(opened[1], dir_fd=opened[0], follow_symlinks=False)
            return
    put_folder(tree, place, SHARED_MODE)


def storing(root: str) -> frozenset[str]:
    """Devices on which tenants own data of storage beside what is theirs.

    By the table of mounts alone, since whoever serves a place need not answer. A disk in a file is
    root's, and what is in it is counted by itself.
    """
    table = mounts()
    found: set[str] = set()
    for _, record in records(Probes(root)):
        backend = record.get("backend")
        told = backend.get("directory") if isinstance(backend, dict) else None
        place = told.get("path") if isinstance(told, dict) else None
        if isinstance(place, str):
            around = [m for m in table if f"{place}/".startswith(f"{m.point.rstrip('/')}/")]
            found.update(m.device for m in sorted(around, key=lambda m: len(m.point))[-1:])
    return frozenset(found)
