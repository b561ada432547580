"""Occupants: who works in a volume just now, and who has it where its host does not see it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Iterator

from .attached import OURS, Seat, login_of, shows
from .mounts import Mount, mounted_at, mounts
from .paths import INSTANCES
from .probes import printable
from .processes import running
from .volumes import VOLUMES

MAX_TOLD = 10


def users_of(seat: Seat, uid: int, volume: str) -> list[str]:
    """Processes that work in it as this tenant has it, and others of the host that do so there.

    By where they stand, what they run and what they have open.
    """
    tenants, found = running("/", uid), []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):
            is_near = pid in tenants or _space(pid) == _space("self")
            if is_near and _works_in(seat, volume, pid):
                found.append(f"{pid} {_name(pid)}")
    return found


def tenants_in(seat: Seat, uid: int, volume: str) -> dict[int, str]:
    """pid → name of this tenant's own that work in it, or have it where the host does not."""
    is_there = {one.point for one in mounts() if one.point in seat.places}
    found = {}
    for pid, name in running("/", uid).items():
        with suppress(OSError):
            hidden = not is_there and _space(pid) != _space("self")
            if _works_in(seat, volume, pid) or (hidden and _points(seat, volume, str(pid))):
                found[pid] = name
    return found


def hidden_with(seat: Seat, uid: int, volume: str) -> list[str]:
    """Processes of this tenant that have it mounted still, one of each namespace of theirs."""
    found: dict[str, str] = {}
    for pid, name in sorted(running("/", uid).items()):
        with suppress(OSError):
            space = _space(pid)
            if space not in (*found, _space("self")) and _points(seat, volume, str(pid)):
                found[space] = f"{pid} {name}"
    return list(found.values())


def _works_in(seat: Seat, volume: str, pid: int) -> bool:
    points = _points(seat, volume, str(pid))
    return any(_is_below(path, points) for path in (_held(pid) if points else ()))


def told(who: list[str]) -> str:
    more = len(who) - MAX_TOLD
    return ", ".join(who[:MAX_TOLD]) + (f" and {more} more" if more > 0 else "")


def _points(seat: Seat, volume: str, process: str) -> list[str]:
    """Where it is mounted for that process as this tenant's.

    In every namespace stands what neighbours have too, and nobody else comes in there.
    """
    source = mounted_at(f"{VOLUMES}/{volume}")
    found = (one for one in mounts(process) if shows(one, volume, source))
    return [one.point for one in found if _is_ours(one, seat)]


def _is_ours(mount: Mount, seat: Seat) -> bool:
    if mount.point.startswith(f"{OURS}/"):
        return mount.point.startswith(f"{OURS}/{seat.allocation}/")
    return not mount.point.startswith(f"{INSTANCES}/") or login_of(mount.point) == seat.login


def _space(pid: object) -> str:
    return os.readlink(f"/proc/{pid}/ns/mnt")


def _held(pid: int) -> Iterator[str]:
    for name in ("cwd", "root", "exe"):
        with suppress(OSError):
            yield os.readlink(f"/proc/{pid}/{name}")
    for folder in ("fd", "map_files"):
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/{folder}"):
                with suppress(OSError):
                    yield os.readlink(f"/proc/{pid}/{folder}/{name}")


def _is_below(path: str, points: list[str]) -> bool:
    return any(path == point or path.startswith(f"{point}/") for point in points)


def _name(pid: int) -> str:
    with open(f"/proc/{pid}/comm", errors="replace") as file:
        return printable(file.read().strip())
