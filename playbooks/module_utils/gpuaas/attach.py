"""storage.attach: an allocation has these volumes, each where and how it is to have it.

Each in its turn: what one of them meets is its own, and what the others have stands.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any, Optional

from . import account, fencing
from .attached import OURS, Seat, all_units, link_of, seat_of
from .fencing import Holder
from .files import put_file, put_folder, put_link
from .items import MODE, check_form
from .mounts import mounted_at
from .paths import Places, Refusal, Tree, owned, parent_of
from .probes import call
from .programs import must
from .volumes import BACKENDS, Volume, backend, put_volume, unit_name, volume_of

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

ACCESS, MODES = ("single_writer", "multi_reader", "multi_writer"), ("ro", "rw")
PATIENCE_SECONDS, REST_SECONDS = 12.0, 0.5


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
    volume, seat = _checked(item, one)
    put_file(tree, volume.record, one["record"], "0644")
    if item["uid"] and not tree.whole_host:
        raise Refusal("storage_backend_unfit", "a folder that stands for a host mounts nothing")
    for file in one["files"] if item["uid"] else ():
        put_file(tree, owned(file["path"], all_units(volume, seat)), file["content"], file["mode"])
    if item["uid"]:
        take_up(tree, volume, seat)
    put_volume(tree, volume, item["gid"], one["sizeGiB"], make=one["make"])
    fencing.hold(tree, volume.folder, _holder(tree, one, seat), one["fenced"])
    if item["uid"]:
        _mount(tree, volume, seat)
    else:
        put_link(tree, seat.real, os.path.relpath(volume.data, os.path.dirname(seat.real)))


def _checked(item: dict[str, Any], one: dict[str, Any]) -> tuple[Volume, Seat]:
    ((word, about),) = one["backend"].items() or ((None, None),)
    if word is None:
        raise Refusal("item_invalid", "no backend")
    check_form(about, BACKENDS[word], word)
    if one["access"] not in ACCESS or one["mode"] not in MODES:
        raise Refusal("item_invalid", f"no way to have it: {one['access']!r} {one['mode']!r}")
    if not item["uid"] and word != "directory":
        raise Refusal("storage_backend_unfit", f"{word} needs a host that mounts")
    if not 0 < one["sizeGiB"] <= 10**9 or not all(MODE.fullmatch(f["mode"]) for f in one["files"]):
        raise Refusal("item_invalid", f"no size: {one['sizeGiB']}")
    return volume_of(one["id"], one["backend"]), seat_of(item, one["name"], one["mountPath"])


def _holder(tree: Tree, one: dict[str, Any], seat: Seat) -> Holder:
    with open(os.open("etc/machine-id", os.O_RDONLY, dir_fd=tree.root), encoding="ascii") as file:
        machine = file.read(100).strip()
    return Holder(
        seat.allocation, seat.login, machine, one["mode"], one["mountPath"], one["access"]
    )


def take_up(tree: Tree, volume: Volume, seat: Seat) -> None:
    """systemd knows of its units, and starts them with the host."""
    units = all_units(volume, seat)
    for unit in units:
        put_link(tree, link_of(unit), unit)
    names = [unit.rpartition("/")[2] for unit in units]
    stale = must("systemctl", "show", "--property=NeedDaemonReload", *names)
    if (tree.changed or "=yes" in stale) and not tree.dry:
        must("systemctl", "daemon-reload")


def _mount(tree: Tree, volume: Volume, seat: Seat) -> None:
    """Mounted at both places, or refused; what is bare there nobody may write to."""
    put_folder(tree, OURS, "0755")
    put_folder(tree, f"{OURS}/{seat.allocation}", "0755")
    for place in seat.places:
        _put_place(tree, place)
        if _is_mounted(tree, place, volume, seat):
            continue
        tree.changed = True
        if not tree.dry:
            start(unit_name(place))
            if not _is_mounted(tree, place, volume, seat):
                raise Refusal("volume_not_mounted", f"nothing of {volume.id} is at {place}")


def start(unit: str) -> None:
    """What it lies on may come a moment later: tried again for a while, and then refused."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        call("systemctl", "reset-failed", unit)
        done = call("systemctl", "start", unit)
        if done.returncode == 0:
            return
        if time.monotonic() > until:
            said = call("journalctl", "-u", unit, "-n", "3", "-o", "cat", "--no-pager").stdout
            why = " ".join(said.split())[-300:] or done.stderr.strip()
            raise Refusal("volume_not_mounted", f"{unit} does not start: {why}")
        time.sleep(REST_SECONDS)


def _put_place(tree: Tree, place: str) -> None:
    """Folders of ours down to where it is mounted; what is there already is left as it is."""
    with parent_of(tree, f"{place}/", make=True):
        pass


def _is_mounted(tree: Tree, place: str, volume: Volume, seat: Seat) -> bool:
    """The data of this volume, and not what an earlier one of that name has left there."""
    found = None if tree.dry else mounted_at(place)
    if found is None:
        return False
    with suppress(OSError):
        here, data = os.stat(place), os.stat(volume.data)
        if (here.st_dev, here.st_ino) == (data.st_dev, data.st_ino):
            return True
    raise Refusal("volume_not_mounted", f"something else is mounted at {place}")
