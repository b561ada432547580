"""Hidden mounts: what a tenant still has of a volume where its host does not see it.

In user namespaces of their own people mount as they like: a folder of a volume at another place, an
overlay that lies on it, a mount that is in a descriptor alone, and namespaces in which nobody is
any more. None of that keeps the host from unmounting the volume, and all of it opens it after that.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import Iterable, Iterator, Optional

from .mount_places import Seat, shows
from .mounts import Mount, mounted_at, mounts, mounts_within
from .open_devices import Handles, TooMany, Unlisted, stated
from .paths import UIDS, holder
from .probes import Probes, printable
from .processes import running
from .volume_users import Look, space_of
from .volumes import VOLUMES

SECONDS = 15.0
MOST_NAMESPACES = "/proc/sys/user/max_user_namespaces"
SPACE = "mnt:["
"""How the kernel calls a namespace of mounts."""

PLAIN = ("ext4", "xfs", "nfs", "nfs4")
"""Of these a file has the device that its mount has."""

BUFFERS = ("/dmabuf:", "/anon_hugepage")
"""Names of what lies on no disk, and is no folder."""


def tenants_in(seat: Seat, uid: int, volume: str) -> dict[int, str]:
    """pid → name of this tenant's own that work in it, or have it where the host does not."""
    is_there = {one.point for one in mounts() if one.point in seat.places}
    look, tenants, found = Look(seat, volume), running("/", uid), {}
    hidden = None if is_there else Hidden(seat, volume, tenants)
    for pid, name in tenants.items():
        with suppress(OSError):
            if look.works_in(pid) or (hidden and hidden.how(pid)):
                found[pid] = name
    return found


def hidden_with(seat: Seat, uid: int, volume: str) -> list[str]:
    """Processes of this tenant that have it still, and how; one of each namespace of theirs."""
    tenants, found = running("/", uid), dict[str, str]()
    hidden = Hidden(seat, volume, tenants)
    for pid, name in sorted(tenants.items()):
        with suppress(OSError):
            how = hidden.how(pid)
            if how:
                key = f"{space_of(pid)} {how}" if hidden.is_of_space(how) else str(pid)
                found.setdefault(key, f"{pid} {name} ({how})")
    return list(found.values())


class Hidden:
    """At what processes of one tenant have of a volume that the host has unmounted for it."""

    def __init__(self, seat: Seat, volume: str, tenants: Iterable[int]) -> None:
        self._seat, self._volume = seat, volume
        self._until = time.monotonic() + SECONDS
        self._handles = Handles(Probes("/"))
        self._here = {one.number: one for one in mounts()}
        self._source = mounted_at(f"{VOLUMES}/{volume}")
        self._device = _device_of(self._source or _around(seat.place))
        self._numbers = {*_internal(), *self._here}
        self._spaces: dict[str, str] = {space_of("self"): ""}
        self._kept: dict[int, str] = {}
        self._numbers.update(_numbers_of_others())
        for pid in tenants:
            with suppress(OSError):
                self._of_spaces(pid)

    def how(self, pid: int) -> str:
        """In words; empty if it has nothing of it. Raises OSError where the process has gone."""
        return self._of_spaces(pid) or (self._of_handles(pid) if _may_mount() else "")

    def is_of_space(self, how: str) -> bool:
        """Whether that is said of a namespace as a whole."""
        return how in self._spaces.values()

    def _of_spaces(self, pid: int) -> str:
        """By what is mounted in the namespaces of its threads, each of which may have its own."""
        threads = [f"/proc/{pid}/task/{tid}" for tid in self._handles.threads(pid)]
        return _first(self._of_space(f"{task}/ns/mnt") for task in (f"/proc/{pid}", *threads))

    def _of_space(self, place: str) -> str:
        space = os.readlink(place)
        if space not in self._spaces:
            self._spaces[space] = self._looked_into(place)
        return self._spaces[space]

    def _looked_into(self, place: str) -> str:
        if time.monotonic() > self._until:
            return "has more namespaces than there is time to look into"
        try:
            there = {one.number: one for one in mounts_within(place)}
        except PermissionError:
            return "has a namespace that cannot be looked into"
        self._numbers.update(there)
        return _first(self._of_mount(one, there) for one in there.values())

    def _of_mount(self, mount: Mount, there: dict[str, Mount]) -> str:
        if shows(mount, self._volume, self._source):
            return "" if self._is_anothers(mount, there) else "has it mounted"
        if mount.kind == "overlay" and mount.device not in {o.device for o in self._here.values()}:
            return f"has an overlay at {_short(mount.point)}, which may lie on it"
        if mount.kind == "nsfs" and mount.root.startswith(SPACE):
            return f"keeps a namespace at {_short(mount.point)}, which may have it"
        return ""

    def _is_anothers(self, mount: Mount, there: dict[str, Mount]) -> bool:
        """Every namespace has what the host has, for a neighbour too; nobody comes in there.

        By where it stands, in the very folder of the host: names are whatever somebody likes.
        """
        return any(
            (one.what, one.point) == (mount.what, mount.point)
            and one.point not in self._seat.places
            and _parent(one, self._here) == _parent(mount, there) is not None
            for one in self._here.values()
        )

    def _of_handles(self, pid: int) -> str:
        """By what it has open, stands in, runs or has mapped."""
        rest = Unlisted()
        try:
            with self._handles.of_owner(pid):
                found = _first(self._of_link(path, rest) for path in self._links(pid))
                return found or ", ".join(rest.told())
        except TooMany:
            return "has more open than there is time to look at"

    def _links(self, pid: int) -> Iterator[str]:
        for tid in (pid, *self._handles.threads(pid)):
            yield from (f"/proc/{pid}/task/{tid}/{name}" for name in ("cwd", "root", "exe"))
        for folder in (*self._handles.tables(pid), *self._handles.mappings(pid)):
            yield from self._handles.inside(folder)

    def _of_link(self, path: str, rest: Unlisted) -> str:
        found = stated(path)
        if found is None or found.mount in self._numbers:
            return ""
        try:
            told = os.readlink(path)
        except OSError:
            return ""
        rest.add(path, told)
        if told.startswith(SPACE):
            with suppress(OSError):
                return self._of_space(path) and "keeps a namespace in which it is mounted"
        if not told.startswith("/") or self._device not in ("", found.device):
            return ""
        # By a device or a pipe nobody comes to what lies beside it.
        is_file = stat.S_ISREG(found.mode) and not told.startswith(BUFFERS)
        is_way = is_file or stat.S_ISDIR(found.mode)
        return "has something open by a mount that is nowhere" if is_way else ""


def _device_of(mount: Optional[Mount]) -> str:
    """On which all of it is; empty where it may be on any."""
    return mount.device if mount and mount.kind in PLAIN else ""


def _around(place: str) -> Optional[Mount]:
    """What a plain folder lies on."""
    over = [one for one in mounts() if f"{place}/".startswith(f"{one.point.rstrip('/')}/")]
    return max(reversed(over), key=lambda one: len(one.point)) if place else None


def _first(told: Iterable[str]) -> str:
    return next(filter(None, told), "")


def _parent(mount: Mount, of: dict[str, Mount]) -> object:
    """What it stands in, and where that stands."""
    found = of.get(mount.parent)
    return found and (found.what, found.point)


def _short(point: str) -> str:
    """A name that a tenant has given, for a line of text."""
    return printable(point)[-80:]


def _may_mount() -> bool:
    """Whether anybody but root can, by a user namespace; so it is where nobody can say."""
    with suppress(OSError), open(MOST_NAMESPACES, encoding="ascii") as file:
        return file.read().strip() != "0"
    return True


def _numbers_of_others() -> Iterator[str]:
    """Of what is mounted for the host's own services, and not for its tenants."""
    seen = {space_of("self")}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if holder(os.stat(f"/proc/{pid}").st_uid) not in UIDS and space_of(pid) not in seen:
                seen.add(space_of(pid))
                yield from (one.number for one in mounts(pid))


def _internal() -> Iterator[str]:
    """The number of the kernel's own mount, on which memory has its names."""
    file = os.memfd_create("gpuaas")
    try:
        found = stated(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    if found is not None:
        yield found.mount
