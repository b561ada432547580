"""Attached: the places at which an allocation has a volume, and who is using it there.

The real mount stands at `/gpuaas/<allocation id>/<storage>`. What the tenant sees at its mount path
is a second one in the instance of that folder that is its login's: mounted on the host, it comes
and goes in open sessions too, whose namespaces hear of what the host mounts.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Iterator, NamedTuple

from .mounts import Mount, mounts
from .paths import INSTANCES, LOGIN, UNITS, Refusal
from .probes import printable
from .volumes import NAME, Volume, unit_name, unit_of

OURS = "/gpuaas"
TOPS = ("data", "datasets", "mnt", "workspace")
MOUNT_PATH = re.compile(r"/(data|datasets|mnt|workspace)(/[0-9A-Za-z_-][0-9A-Za-z._-]*)*")
WANTS = f"{UNITS}/multi-user.target.wants"


class Seat(NamedTuple):
    """One volume as one allocation has it."""

    allocation: str
    login: str
    name: str
    mount_path: str

    @property
    def real(self) -> str:
        return f"{OURS}/{self.allocation}/{self.name}"

    @property
    def view(self) -> str:
        _, top, *rest = self.mount_path.split("/")
        return "/".join((INSTANCES, top, self.login, *rest))

    @property
    def places(self) -> tuple[str, str]:
        """What lies below first."""
        return self.real, self.view

    @property
    def units(self) -> tuple[str, ...]:
        return tuple(map(unit_of, self.places))


def seat_of(item: dict[str, object], name: str, mount_path: str) -> Seat:
    if not NAME.fullmatch(name):
        raise Refusal("item_invalid", f"no name of a storage: {name!r}")
    if not MOUNT_PATH.fullmatch(mount_path):
        raise Refusal("path_unsafe", f"no mount path: {mount_path!r}")
    return Seat(str(item["id"]), str(item["login"]), name, mount_path)


def link_of(unit: str) -> str:
    """What takes a unit into the boot, without which the boot goes on all the same."""
    return f"{WANTS}/{unit.rpartition('/')[2]}"


def all_units(volume: Volume, seat: Seat) -> tuple[str, ...]:
    source = volume.source_unit
    return (*((source,) if source else ()), *seat.units)


def unit_names(seat: Seat) -> tuple[str, ...]:
    return tuple(map(unit_name, seat.places))


def users_of(whats: set[tuple[str, str]]) -> Iterator[str]:
    """Processes that hold one of these folders, wherever it is mounted for them, in words.

    By where they stand, what they run and what they have open, in their own namespace.
    """
    points: dict[str, list[str]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            space = os.readlink(f"/proc/{pid}/ns/mnt")
            if space not in points:
                points[space] = [one.point for one in mounts(pid) if one.what in whats]
            if points[space] and any(_is_below(link, points[space]) for link in _held(pid)):
                yield f"{pid} {_name(pid)}"


def namespaces_with(whats: set[tuple[str, str]]) -> Iterator[str]:
    """A process of each mount namespace but ours in which one of these is mounted still."""
    seen = {os.readlink("/proc/self/ns/mnt")}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            space = os.readlink(f"/proc/{pid}/ns/mnt")
            if space in seen:
                continue
            seen.add(space)
            if any(one.what in whats for one in mounts(pid)):
                yield f"{pid} {_name(pid)}"


def volume_at(mount: Mount, visible: dict[str, Mount]) -> str:
    """The id of the volume whose data is mounted here; empty if it is none."""
    folder, _, data = mount.root.rpartition("/")
    if data != "data":
        return ""
    if folder:
        return folder.rpartition("/")[2]
    sources = (p for p, one in visible.items() if one.device == mount.device and one.root == "/")
    return next((p.rpartition("/")[2] for p in sources if p.startswith("/var/lib/gpuaas/")), "")


def login_of(view: str) -> str:
    """Whose view it is, by where it stands."""
    parts = view[len(INSTANCES) :].split("/")
    known = len(parts) > 2 and parts[1] in TOPS and LOGIN.fullmatch(parts[2])
    return parts[2] if known else ""


def _held(pid: str) -> Iterator[str]:
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


def _name(pid: str) -> str:
    with open(f"/proc/{pid}/comm", errors="replace") as file:
        return printable(file.read().strip())
