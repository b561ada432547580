"""Volume users: the processes that work in a volume now."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from typing import Iterator, Optional

from .mount_places import OURS, Seat, login_of, shows
from .mounts import Mount, mounted_at, mounts
from .open_devices import SOCKET, has_waiting
from .paths import INSTANCES
from .probes import printable
from .processes import running
from .volumes import VOLUMES

MAX_TOLD = 10
SECONDS, PROCESS_SECONDS = 15.0, 2.0


def users_of(seat: Seat, uid: int, volume: str) -> list[str]:
    """Processes that work in it as this tenant has it, and others of the host that do so there.

    By where they stand, what they run, what they have open and where their sockets have names; who
    has more open than there is time for, or files on their way through a socket, may do so.
    """
    look, tenants, found = Look(seat, volume), running("/", uid), []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):
            is_near = pid in tenants or space_of(pid) == space_of("self")
            if is_near and look.works_in(pid):
                found.append(f"{pid} {_name(pid)}")
    return found


class Look:
    """At who works in a volume, in a time for each process and one for all."""

    def __init__(self, seat: Seat, volume: str) -> None:
        self._seat, self._volume = seat, volume
        self._until = time.monotonic() + SECONDS
        self._by_space: dict[str, list[str]] = {}
        self._sockets: dict[str, dict[str, list[str]]] = {}

    def works_in(self, pid: int) -> bool:
        points = self.points(pid)
        until = min(self._until, time.monotonic() + PROCESS_SECONDS)
        return bool(points) and any(
            path is None
            or _is_below(path, points)
            or any(_is_near(name, points) for name in self._names(pid, path))
            or time.monotonic() > until
            for path in _held(pid)
        )

    def _names(self, pid: int, path: str) -> list[str]:
        """Of a socket, as it was told when it was given them; none of anything else."""
        if not path.startswith(SOCKET):
            return []
        space = os.readlink(f"/proc/{pid}/ns/net")
        if space not in self._sockets:
            self._sockets[space] = _names_of_sockets(pid)
        return self._sockets[space].get(path[len(SOCKET) : -1], [])

    def points(self, pid: int) -> list[str]:
        """Where it is mounted for that process as this tenant's, asked once in a namespace.

        In every namespace stands what neighbours have too, and nobody else comes in there.
        """
        space = space_of(pid)
        if space not in self._by_space:
            source = mounted_at(f"{VOLUMES}/{self._volume}")
            found = (one for one in mounts(str(pid)) if shows(one, self._volume, source))
            self._by_space[space] = [one.point for one in found if _is_ours(one, self._seat)]
        return self._by_space[space]


def told(who: list[str]) -> str:
    more = len(who) - MAX_TOLD
    return ", ".join(who[:MAX_TOLD]) + (f" and {more} more" if more > 0 else "")


def _is_ours(mount: Mount, seat: Seat) -> bool:
    if mount.point.startswith(f"{OURS}/"):
        return mount.point.startswith(f"{OURS}/{seat.allocation}/")
    return not mount.point.startswith(f"{INSTANCES}/") or login_of(mount.point) == seat.login


def space_of(pid: object) -> str:
    """The namespace of mounts that a process is in."""
    return os.readlink(f"/proc/{pid}/ns/mnt")


def _held(pid: int) -> Iterator[Optional[str]]:
    """Paths of what it has; None for one that is too long to be told, which may be anywhere."""
    for name in ("cwd", "root", "exe"):
        yield from _link(f"/proc/{pid}/{name}")
    for folder in ("fd", "map_files"):
        with suppress(OSError), os.scandir(f"/proc/{pid}/{folder}") as entries:
            for entry in entries:
                for path in _link(entry.path):
                    is_on_its_way = path and path.startswith(SOCKET) and has_waiting(entry.path)
                    yield None if is_on_its_way else path


def _names_of_sockets(pid: int) -> dict[str, list[str]]:
    """Inode → names in folders, of all in the namespace of networks that a process is in."""
    found: dict[str, list[str]] = {}
    with open(f"/proc/{pid}/net/unix", errors="surrogateescape") as table:
        for line in table:
            words = line.rstrip("\n").split(maxsplit=7)
            if len(words) == 8 and not words[7].startswith("@"):
                found.setdefault(words[6], []).append(words[7])
    return found


def _link(path: str) -> Iterator[Optional[str]]:
    try:
        yield os.readlink(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            yield None


def _is_below(path: str, points: list[str]) -> bool:
    return any(path == point or path.startswith(f"{point}/") for point in points)


def _is_near(name: str, points: list[str]) -> bool:
    """A name that does not say from where it begins may be in there."""
    return not name.startswith("/") or _is_below(name, points)


def _name(pid: int) -> str:
    with open(f"/proc/{pid}/comm", errors="replace") as file:
        return printable(file.read().strip())
