"""Attachments: who has which volume on this host, as the kernel shows it, and how much is used.

Mounted at both places, the real one and the tenant's view, with the same data and the same rights,
or it is told what is wrong; a record says what should be, and never what is.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from typing import Any, Iterator, Optional

from .folder_usage import Counting
from .mount_places import OURS, login_of, volume_at
from .mounts import Mount, mounts
from .paths import ALLOCATION_ID, INSTANCES
from .platform_state import one_line, read_descriptor
from .probes import ProbeError, Probes, open_below, printable
from .stale_mounts import Rooms
from .volumes import DATA, WHOSE

RECORDS, DESCRIPTORS = "etc/gpuaas/volumes", "etc/gpuaas/allocations"
MOUNTED, HOLDERS = "var/lib/gpuaas/volumes", "holders"
MAX_VOLUMES, MAX_TOLD = 1000, 64_000


def read_attached(probes: Probes) -> dict[str, str]:
    """`<allocation id>/<storage>` → `<volume> <mode> at <mount path>`, or what is wrong."""
    if not probes.whole_host:
        return dict(_linked(probes))
    visible = {mount.point: mount for mount in mounts()}
    found = {}
    for point, mount in visible.items():
        if point.startswith(f"{OURS}/"):
            found[printable(point[len(OURS) + 1 :])] = printable(_told(probes, mount, visible))
    return found


def read_volumes(probes: Probes) -> dict[str, dict[str, int]]:
    """Volume id → `sizeMiB` of the file system that its data is on, and `usedMiB` of the data.

    The latter is not told where nobody knows: of a folder too large to be counted, and of shares,
    where counting would wait for a server.
    """
    found, rooms, counting = {}, Rooms(), Counting()
    for id, record in records(probes):
        with suppress(OSError, ProbeError):
            place = _data(probes, id, record)
            if room := rooms.of(place):
                found[id] = {"sizeMiB": room.total >> 20}
                used = room.used if _is_whole(record) else None
                if used is None and not rooms.is_distant(place):
                    used = counting.used(place)
                if used is not None:
                    found[id]["usedMiB"] = used >> 20
    return found


def _is_whole(record: dict[str, Any]) -> bool:
    """Whether its data has a file system of its own."""
    return next(iter(record.get("backend") or ()), "") == "loop"


def records(probes: Probes) -> Iterator[tuple[str, dict[str, Any]]]:
    """The volumes that this host has had, and what their records say, unjudged."""
    for id, told in _records(probes).items():
        if isinstance(told, dict):
            yield id, told


def _records(probes: Probes) -> dict[str, Any]:
    """None where there is one that nobody can read."""
    folder = open_below(probes.root, RECORDS)
    if folder is None:
        return {}
    try:
        ids = (name[:-5] for name in sorted(os.listdir(folder)) if name.endswith(".json"))
        sound = [id for id in ids if ALLOCATION_ID.fullmatch(id)]
        return {id: read_descriptor(folder, f"{id}.json") for id in sound[:MAX_VOLUMES]}
    finally:
        os.close(folder)


def folders(probes: Probes) -> list[str]:
    """Where the data of volumes lies: what people of a project have left in there is theirs."""
    return sorted(_data(probes, id, record) for id, record in records(probes))


def data_around(path: str) -> str:
    """The data of a volume that this path lies in, also of one that this host has never had.

    Empty if none. By what stands beside the data, where nobody but root comes to: on a folder that
    hosts share others have made it.
    """
    parts = path.split("/")
    for number, part in enumerate(parts):
        folder = "/".join(parts[:number])
        if part == DATA and ALLOCATION_ID.fullmatch(parts[number - 1]) and _is_ours(folder):
            return f"{folder}/{DATA}"
    return ""


def _is_ours(folder: str) -> bool:
    with suppress(OSError):
        whose, place = os.lstat(os.path.join(folder, WHOSE)), os.lstat(folder)
        owners = {whose.st_uid, place.st_uid}
        return (
            stat.S_ISREG(whose.st_mode) and owners == {os.geteuid()} and not place.st_mode & 0o077
        )
    return False


def read_volume_texts(probes: Probes) -> dict[str, str]:
    """Volume id → its record and who has it, on one line; '' where that is nothing sound."""
    found, rooms = {}, Rooms()
    for id, record in _records(probes).items():
        told = {"record": record, "holders": _holders(probes, rooms, id, record)}
        found[id] = one_line(told, MAX_TOLD) if isinstance(record, dict) else ""
    if len(found) == MAX_VOLUMES:
        raise ProbeError(f"{MAX_VOLUMES} volumes or more")
    return found


def _holders(probes: Probes, rooms: Rooms, id: str, record: Any) -> Optional[list[Any]]:
    """As they stand beside the data; None where nobody can read who has it."""
    path = _backend(record).get("path")
    place = path.strip("/") if isinstance(path, str) else f"{MOUNTED}/{id}"
    try:
        return told_holders(probes.root, f"{place}/{id}") if rooms.of(probes.at(place)) else None
    except (OSError, ProbeError):
        return None


def told_holders(root: str, place: str) -> Optional[list[Any]]:
    """What the file of each holder says, unjudged; None where nobody can read who has it."""
    holders = open_below(root, f"{place}/{HOLDERS}")
    if holders is None:
        return [] if os.path.isdir(os.path.join(root, place)) else None
    try:
        names = [name for name in sorted(os.listdir(holders)) if not name.startswith(".")]
        found = [read_descriptor(holders, name) for name in names]
    finally:
        os.close(holders)
    return None if None in found else found


def _backend(record: Any) -> dict[str, Any]:
    """What its class says of where it lies, unjudged."""
    told = record.get("backend") if isinstance(record, dict) else None
    about = next(iter(told.values()), None) if isinstance(told, dict) else None
    return about if isinstance(about, dict) else {}


def _data(probes: Probes, id: str, record: dict[str, Any]) -> str:
    path, word = _backend(record).get("path"), next(iter(record.get("backend") or ()), "")
    if word == "directory" and isinstance(path, str):
        return probes.at(path.strip("/"), id, "data")
    return probes.at(MOUNTED, *((id,) if word == "loop" else (id, id)), "data")


def _told(probes: Probes, mount: Mount, visible: dict[str, Mount]) -> str:
    volume, how = volume_at(mount, visible), _how(mount)
    if not volume:
        return f"wrong: {mount.root} is no volume"
    login = _login(probes, mount.point.split("/")[2])
    views = [
        one
        for one in visible.values()
        if login and login_of(one.point) == login and one.what == mount.what
    ]
    if not views:
        return f"wrong: {volume} {how} is seen nowhere"
    if odd := [one for one in views if _how(one) != how]:
        return f"wrong: {volume} {how} is seen {_how(odd[0])} at {_mount_path(odd[0].point)}"
    return f"{volume} {how} at {', '.join(sorted(_mount_path(one.point) for one in views))}"


def _how(mount: Mount) -> str:
    """`ro` or `rw`, and what else a tenant could do with it that is not for tenants."""
    mode = "ro" if "ro" in mount.flags else "rw"
    more = sorted({"nodev", "nosuid"} - set(mount.flags))
    return f"{mode} without {' and '.join(more)}" if more else mode


def _mount_path(view: str) -> str:
    top, _, *rest = view[len(INSTANCES) + 1 :].split("/")
    return "/" + "/".join((top, *rest))


def _login(probes: Probes, allocation: str) -> Optional[str]:
    with suppress(FileNotFoundError, ValueError):
        told = json.loads(probes.text(DESCRIPTORS, f"{allocation}.json"))
        if isinstance(told, dict) and isinstance(told.get("login"), str):
            return str(told["login"])
    return None


def _linked(probes: Probes) -> Iterator[tuple[str, str]]:
    """On a folder that stands for a host a link leads to the data, and a record says how."""
    for place in _inside(probes.at(OURS.strip("/"))):
        for link in _inside(place) if os.path.isdir(place) else ():
            allocation, name = link.split("/")[-2:]
            yield printable(f"{allocation}/{name}"), printable(_of_link(allocation, link))


def _inside(folder: str) -> list[str]:
    with suppress(FileNotFoundError):
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return []


def _of_link(allocation: str, link: str) -> str:
    if not os.path.islink(link):
        return "wrong: it is no link"
    if not os.path.isdir(link):
        return "wrong: its data is not there"
    folder = os.path.dirname(os.path.join(os.path.dirname(link), os.readlink(link)))
    for one in told_holders(folder, ".") or ():
        if isinstance(one, dict) and one.get("allocation") == allocation:
            id = os.path.basename(os.path.normpath(folder))
            return f"{id} {one.get('mode')} at {one.get('mount_path')}"
    return "wrong: nobody is written down as having it"
