"""Quotas: each tenant's share of the file systems of its places, put in force and lifted.

By project wherever the file system bounds anybody by that; and by uid as well where it can and no
data of storage lies on it, since whoever owns a file may give it another project. Its number is
drawn, and told to nobody: who knew it could have its own files count against the tenant. A kernel
that refuses keeps nobody from being provided: it is told of.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from typing import Optional, Union

from .attachments import records
from .files import put_file, put_folder
from .mounts import mounts
from .paths import INSTANCES, Tree, parent_of
from .probes import ProbeError, Probes
from .projects import Late, Owned, belongs, put_tree
from .quota_shares import (
    FOLDER,
    PROJECTS,
    FileSystem,
    Room,
    Share,
    file_systems,
    read_shares,
    why_of,
)
from .quotactl import NO_LIMITS, USER, Limits, limits_of, set_limits

SECONDS = 20.0
"""For giving a project to what was there before: a provide is not held up by many files."""

LATE = "more files than can be counted in time; the next provide goes on"
SHARED_MODE = "1777"
"""Of what a tenant sees as /tmp: as the host's own, which it is made after."""


def put(tree: Tree, share: Share, seconds: float = SECONDS) -> None:
    """In force wherever it can be; written is what was, and why not."""
    if not tree.whole_host:
        return
    shares = read_shares(tree.path)
    known = shares.get(share.uid)
    share = _numbered(tree, share, shares)
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
                _bound(tree, system, share, wanted(system, room.limits, stored))
                _count(tree, share, number, until)
            except Late:
                failed[system.point] = LATE
            except OSError as error:
                failed[system.point] = why_of(error)
    _write(tree, share._replace(rooms=rooms, failed=failed))


def renew(tree: Tree) -> None:
    """Of everybody, where data of storage has come or gone: it is nobody's share.

    Limits alone, as they were given: what else is wrong is for those to see who look, and what a
    kernel refuses they see as well.
    """
    if not tree.whole_host:
        return
    shares, systems = read_shares(tree.path).values(), file_systems(tree.path).values()
    stored = storing(tree.path)
    for share in filter(None, shares):
        for system in systems:
            room = share.rooms.get(system.point)
            if room is not None:
                with suppress(OSError):
                    _bound(tree, system, share, wanted(system, room.limits, stored))


def lift(tree: Tree, uid: int) -> None:
    """Nobody is bounded by these numbers any more; as a uid is never given again, none waits."""
    if not tree.whole_host:
        return
    share = None
    with suppress(ProbeError):
        share = read_shares(tree.path).get(uid)
    # Where nobody can say any more which number it was, nobody else gets that one either.
    bound = _before(share) if share else Share("", "", uid, 0, 0, {}, {})
    for system in file_systems(tree.path).values():
        with suppress(OSError):
            _bound(tree, system, bound, dict.fromkeys(system.kinds, NO_LIMITS))


def _before(share: Share) -> Share:
    """A record without a number is from when the uid was that."""
    return share._replace(project=share.project or share.uid)


def _numbered(tree: Tree, share: Share, shares: dict[int, Optional[Share]]) -> Share:
    """With the project that it has. One that is drawn stands written before anything belongs to it:

    whoever is broken off goes on with the same.
    """
    known = shares.get(share.uid)
    taken = {one.project for one in shares.values() if one and one.uid != share.uid}
    if known and known.id == share.id and known.project and known.project not in taken:
        return share._replace(project=known.project, salt=known.salt)
    fresh = share._replace(project=_drawn(taken), salt=os.urandom(16).hex())
    _write(tree, fresh)
    if known and _before(known).project not in taken:
        for system in file_systems(tree.path).values():
            with suppress(OSError):
                none = dict.fromkeys(system.kinds - {USER}, NO_LIMITS)
                _bound(tree, system, _before(known), none)
    return fresh


def _drawn(taken: set[int]) -> int:
    while True:
        number = int.from_bytes(os.urandom(4), "little") >> 1
        if number in PROJECTS and number not in taken:
            return number


def _write(tree: Tree, share: Share) -> None:
    put_folder(tree, FOLDER, "0700")
    put_file(tree, share.path, share.text, "0600")


def _bound(tree: Tree, system: FileSystem, share: Share, wanted: dict[int, Limits]) -> None:
    """By project only where it has one: 0 is what all the rest belongs to."""
    for kind, limits in wanted.items():
        number = share.number(kind)
        if number and limits_of(system.device, kind, number) != limits:
            if not tree.dry:
                set_limits(system.device, kind, number, limits)
            tree.changed = True


def wanted(system: FileSystem, limits: Limits, stored: frozenset[str]) -> dict[int, Limits]:
    """By kind. Of data on a storage a tenant may own as much as there is room for."""
    by_uid = NO_LIMITS if system.mount.device in stored else limits
    return {kind: by_uid if kind == USER else limits for kind in sorted(system.kinds)}


def _count(tree: Tree, share: Share, number: int, until: float) -> None:
    """Its places on this file system, with what lay there before; one holds up no other."""
    first: Union[OSError, Late, None] = None
    for place in share.places.values():
        try:
            _count_place(tree, share, place, number, until)
        except (OSError, Late) as error:
            first = first or error
    if first:
        raise first


def _count_place(tree: Tree, share: Share, place: str, number: int, until: float) -> None:
    if place.startswith(f"{INSTANCES}/"):
        _make(tree, place, number)
    with parent_of(tree, f"{place}/", make=False) as opened:
        if opened is None or os.fstat(opened[0]).st_dev != number:
            return
        if belongs(opened[0], share.project):
            return
        if inner := [one.point for one in mounts() if one.point.startswith(f"{place}/")]:
            raise OSError(errno.EBUSY, f"something is mounted at {inner[0]}")
        if not tree.dry:
            put_tree(opened[0], Owned(share.project, share.uid), until)
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
