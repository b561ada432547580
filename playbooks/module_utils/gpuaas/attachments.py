"""Who has which volume on this host, as the kernel shows it, and how much of each is used.

Mounted at both places, the real one and the tenant's view, with the same data and the same rights,
or it is told what is wrong; a record says what should be, and never what is.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any, Iterator, Optional

from .attached import OURS, login_of, volume_at
from .mounts import Mount, mounts
from .paths import ALLOCATION_ID, INSTANCES
from .probes import ProbeError, Probes, printable

RECORDS, DESCRIPTORS = "etc/gpuaas/volumes", "etc/gpuaas/allocations"


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
    """Volume id → `sizeMiB` and `usedMiB` of the file system that its data is on."""
    found = {}
    for id, record in records(probes):
        with suppress(OSError, ProbeError):
            told = os.statvfs(_data(probes, id, record))
            unit = told.f_frsize / (1 << 20)
            used = told.f_blocks - told.f_bfree
            found[id] = {"sizeMiB": int(told.f_blocks * unit), "usedMiB": int(used * unit)}
    return found


def records(probes: Probes) -> Iterator[tuple[str, dict[str, Any]]]:
    """The volumes that this host has had, and what their records say, unjudged."""
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(probes.at(RECORDS))):
            id, dot, rest = name.partition(".")
            if dot and rest == "json" and ALLOCATION_ID.fullmatch(id):
                with suppress(ValueError, FileNotFoundError):
                    told = json.loads(probes.text(RECORDS, name))
                    if isinstance(told, dict):
                        yield id, told


def folders(probes: Probes) -> list[str]:
    """Where the data of volumes lies: what people of a project have left in there is theirs."""
    return sorted(_data(probes, id, record) for id, record in records(probes))


def _data(probes: Probes, id: str, record: dict[str, Any]) -> str:
    backend = record.get("backend")
    about = backend.get("directory") if isinstance(backend, dict) else None
    if isinstance(about, dict) and isinstance(about.get("path"), str):
        return probes.at(about["path"].strip("/"), id, "data")
    if isinstance(backend, dict) and "loop" in backend:
        return probes.at("var/lib/gpuaas/volumes", id, "data")
    return probes.at("var/lib/gpuaas/volumes", id, id, "data")


def _told(probes: Probes, mount: Mount, visible: dict[str, Mount]) -> str:
    volume, mode = volume_at(mount, visible), _mode(mount)
    if not volume:
        return f"wrong: {mount.root} is no volume"
    login = _login(probes, mount.point.split("/")[2])
    views = [
        point
        for point, one in visible.items()
        if login and login_of(point) == login and one.what == mount.what and _mode(one) == mode
    ]
    if not {"nodev", "nosuid"} <= set(mount.flags):
        return f"wrong: {volume} with devices or setuid"
    if not views:
        return f"wrong: {volume} {mode} is seen nowhere"
    return f"{volume} {mode} at {', '.join(sorted(map(_mount_path, views)))}"


def _mode(mount: Mount) -> str:
    return "ro" if "ro" in mount.flags else "rw"


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
    with suppress(FileNotFoundError):
        for allocation in sorted(os.listdir(probes.at(OURS.strip("/")))):
            place = probes.at(OURS.strip("/"), allocation)
            for name in sorted(os.listdir(place)):
                link = os.path.join(place, name)
                folder = os.path.dirname(os.path.join(place, os.readlink(link)))
                yield (
                    printable(f"{allocation}/{name}"),
                    printable(_of_link(folder, allocation, link)),
                )


def _of_link(folder: str, allocation: str, link: str) -> str:
    if not os.path.isdir(link):
        return "wrong: its data is not there"
    record = os.path.join(folder, "holders.json")
    with (
        suppress(FileNotFoundError, ValueError, KeyError, TypeError),
        open(record, encoding="utf-8") as file,
    ):
        for one in json.load(file)["holders"]:
            if one["allocation"] == allocation:
                id = os.path.basename(os.path.normpath(folder))
                return f"{id} {one['mode']} at {one['mount_path']}"
    return "wrong: nobody is written down as having it"
