"""storage.attach: an allocation gets these volumes, each mounted where and how it was asked.

Each in its turn: what one of them meets is its own, and what the others have stands.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Iterable, Optional

from . import account, create_volume, quotas
from .detach import refuse_hidden
from .files import fact_of, put_file, put_folder, put_link
from .items import MODE
from .mount_places import OURS, Seat, all_units, seat_of
from .mounts import Mount, mounted_at
from .paths import Places, Refusal, Tree, owned, parent_of
from .systemd_mounts import mount, take_up, unmount
from .volume_fences import Fence, Holder, holders, machine_of
from .volume_users import told, users_of
from .volumes import Volume, backend, volume_of

VOLUME = {
    "id": str,
    "name": str,
    "backend": backend,
    "sizeGiB": int,
    "access": str,
    "mode": str,
    "mountPath": str,
    "make": bool,
    "fenced": [str],
    "record": str,
    "files": [{"path": str, "mode": str, "content": str}],
}
KEYS = {"id": str, "login": str, "uid": int, "gid": int, "volumes": [VOLUME]}

MAX_GIB = 10**9
ACCESS, MODES = ("single_writer", "multi_reader", "multi_writer"), ("ro", "rw")


def run(tree: Tree, item: dict[str, Any]) -> None:
    Places(item["id"], item["login"], item["uid"])
    if item["uid"]:
        account.check_ours(tree, item["login"], item["uid"], f"gpuaas {item['id']}")
    first: Optional[Refusal] = None
    for one in item["volumes"]:
        try:
            _attach(tree, item, one)
        except Refusal as refusal:
            first = first or Refusal(refusal.code, f"{one['name']}: {refusal.message}")
        except OSError as error:
            first = first or Refusal("verb_failed", f"{one['name']}: {error}")
    if first is not None:
        raise first


def _attach(tree: Tree, item: dict[str, Any], one: dict[str, Any]) -> None:
    """Nothing of it is mounted, or would be by the next boot, before it is ours to have."""
    volume, seat = _checked(item, one)
    if item["uid"] and not tree.whole_host:
        raise Refusal("storage_backend_unfit", "a folder that stands for a host mounts nothing")
    make = one["make"] and fact_of(tree, volume.record) is None
    if volume.backend == "nfs":
        _put_units(tree, one, [path for path in all_units(volume, seat) if path not in seat.units])
    create_volume.reach(tree, volume)
    create_volume.put_home(tree, volume, one["record"], make=make)
    machine = machine_of(tree)
    mine = Holder(
        seat.allocation, seat.login, machine, one["mode"], one["mountPath"], one["access"]
    )
    if item["uid"]:
        _give_up(tree, volume, seat, item["uid"], mine)
    Fence(volume.folder, machine, volume.shared).hold(tree, mine, one["fenced"])
    if item["uid"]:
        _put_units(tree, one, all_units(volume, seat))
    create_volume.put_volume(tree, volume, item["gid"], one["sizeGiB"], make=make)
    put_file(tree, volume.record, one["record"], "0644")
    quotas.renew(tree)
    if item["uid"]:
        _mount(tree, volume, seat, item["uid"], one["mode"])
        create_volume.fill(tree, volume)
    else:
        put_link(tree, seat.real, os.path.relpath(volume.data, os.path.dirname(seat.real)))


def _checked(item: dict[str, Any], one: dict[str, Any]) -> tuple[Volume, Seat]:
    volume = volume_of(one["id"], one["backend"])
    seat = seat_of(item, one["name"], one["mountPath"], volume)
    if one["access"] not in ACCESS or one["mode"] not in MODES:
        raise Refusal("item_invalid", f"no way to have it: {one['access']!r} {one['mode']!r}")
    if not item["uid"] and volume.backend != "directory":
        raise Refusal("storage_backend_unfit", f"{volume.backend} needs a host that mounts")
    if not 0 < one["sizeGiB"] <= MAX_GIB:
        raise Refusal("item_invalid", f"no size: {one['sizeGiB']}")
    for file in one["files"]:
        owned(file["path"], all_units(volume, seat))
        if not MODE.fullmatch(file["mode"]):
            raise Refusal("item_invalid", f"no mode: {file['mode']!r}")
    return volume, seat


def _put_units(tree: Tree, one: dict[str, Any], which: Iterable[str]) -> None:
    units = [file for file in one["files"] if file["path"] in which]
    for file in units:
        put_file(tree, file["path"], file["content"], file["mode"])
    take_up(tree, *(file["path"] for file in units))


def _give_up(tree: Tree, volume: Volume, seat: Seat, uid: int, mine: Holder) -> None:
    """What it has had in another mode it lets go of, before it is written that it has it so.

    Others count on whoever only reads; and what hides from the host would write on.
    """
    had = {one.mode for one in holders(tree, volume.folder) if one.name == mine.name}
    if had <= {mine.mode}:
        return
    for place in reversed(seat.places):
        found = mounted_at(place)
        if found is not None and not _is_had(found, mine.mode):
            unmount(tree, place, lambda: told(users_of(seat, uid, volume.id)))
    if mine.mode == "ro":
        refuse_hidden(tree, seat, uid, volume.id)


def _mount(tree: Tree, volume: Volume, seat: Seat, uid: int, mode: str) -> None:
    """Mounted at both places as it is to be had; nobody may write to what is bare there."""
    put_folder(tree, OURS, "0700")
    put_folder(tree, f"{OURS}/{seat.allocation}", "0700")
    wrong = [place for place in seat.places if not _stands(place, volume, mode)]
    for place in reversed(wrong):
        unmount(tree, place, lambda: told(users_of(seat, uid, volume.id)))
    for place in wrong:
        with parent_of(tree, f"{place}/", make=True):
            pass
        mount(tree, place)
        if not tree.dry and not _stands(place, volume, mode):
            raise Refusal("volume_not_mounted", f"{volume.id} is not {mode} at {place}")


def _stands(place: str, volume: Volume, mode: str) -> bool:
    """The data of this volume; whatever else is mounted there is not ours to take away."""
    found = mounted_at(place)
    if found is None:
        return False
    with suppress(OSError):
        here, data = os.stat(place), os.stat(volume.data)
        if (here.st_dev, here.st_ino) == (data.st_dev, data.st_ino):
            return _is_had(found, mode)
    raise Refusal("volume_not_mounted", f"something else is mounted at {place}")


def _is_had(found: Mount, mode: str) -> bool:
    return {"nodev", "nosuid", mode} <= set(found.flags)
