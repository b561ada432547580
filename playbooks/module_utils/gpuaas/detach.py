"""storage.detach: an allocation no longer has these volumes; all data on them stays.

Nothing is taken from under anybody who works on it: who does is named, and it stays mounted, unless
somebody has asked for the tenant's own to be ended. An unmount that only hides it is none.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any, Optional

from . import create_volume
from .eviction import letting_go
from .files import fact_of, remove_file
from .hidden_mounts import hidden_with
from .mount_places import OURS, Seat, seat_of, shows
from .mounts import mounted_at, mounts
from .paths import INSTANCES, Places, Refusal, Tree, owned, parent_of
from .programs import must, tried
from .systemd_mounts import GRACE_SECONDS, REST_SECONDS, link_of, unmount
from .volume_fences import Fence, machine_of
from .volume_users import told, users_of
from .volumes import Volume, backend, volume_of

KEYS = {
    "id": str,
    "login": str,
    "uid": int,
    "end": bool,
    "volumes": [
        {
            "id": str,
            "name": str,
            "backend": backend,
            "mountPath": str,
            "absent": [str],
            "last": bool,
        }
    ],
}


def run(tree: Tree, item: dict[str, Any]) -> None:
    Places(item["id"], item["login"], item["uid"])
    first: Optional[Refusal] = None
    for one in item["volumes"]:
        try:
            _detach(tree, item, one)
        except Refusal as refusal:
            first = first or Refusal(refusal.code, f"{one['name']}: {refusal.message}")
        except OSError as error:
            first = first or Refusal("verb_failed", f"{one['name']}: {error}")
    _remove_folder(tree, f"{OURS}/{item['id']}")
    if first is not None:
        raise first


def _detach(tree: Tree, item: dict[str, Any], one: dict[str, Any]) -> None:
    # None where nobody knows any more what it lies on: then it is unmounted, and no more.
    volume = volume_of(one["id"], one["backend"]) if one["backend"] else None
    seat = seat_of(item, one["name"], one["mountPath"], volume)
    never_had = volume is not None and _never_had(tree, volume, seat)
    if not item["uid"]:
        remove_file(tree, seat.real)
    elif tree.whole_host:
        _unmount(tree, seat, item, one, volume)
    if volume is None:
        return
    if not never_had:
        create_volume.reach(tree, volume)
        if fact_of(tree, volume.folder) is not None:
            Fence(volume.folder, machine_of(tree), volume.shared).let_go(tree, seat.allocation)
    if one["last"] and tree.whole_host:
        put_away(tree, volume)


def _never_had(tree: Tree, volume: Volume, seat: Seat) -> bool:
    """A share that never came up is let go of without it: whoever has one has units for it."""
    known = (volume.record, *seat.units)
    return volume.backend == "nfs" and all(fact_of(tree, path) is None for path in known)


def _unmount(
    tree: Tree, seat: Seat, item: dict[str, Any], one: dict[str, Any], volume: Optional[Volume]
) -> None:
    """The view first, then what it is a view of, and nothing of them in anybody's namespace."""
    source = (volume.source_unit,) if volume and volume.source_unit else ()
    absent = [owned(path, (*seat.units, *source)) for path in one["absent"]]
    uid, id = item["uid"], one["id"]

    def let_go() -> None:
        for place in reversed(seat.places):
            unmount(tree, place, lambda: told(users_of(seat, uid, id)))
        refuse_hidden(tree, seat, uid, id)

    if item["end"]:
        letting_go(tree, seat, uid, id, let_go)
    else:
        let_go()
    _remove_units(tree, *(unit for unit in absent if unit in seat.units))
    _remove_folder(tree, seat.real)
    _remove_way(tree, seat)


def refuse_hidden(tree: Tree, seat: Seat, uid: int, id: str) -> None:
    """A tenant may have it at a place of its own, where the host's unmount does not reach."""
    until = time.monotonic() + GRACE_SECONDS
    while not tree.dry and (left := hidden_with(seat, uid, id)):
        if time.monotonic() > until:
            raise Refusal("storage_busy", f"not let go of by {told(left)}")
        time.sleep(REST_SECONDS)


def put_away(tree: Tree, volume: Volume) -> None:
    """With the last who had it here, what its data lies on is unmounted too."""
    unit, mount = volume.source_unit, mounted_at(volume.source)
    if unit is None:
        return
    if mount is not None:
        if any(shows(one, volume.id, mount) for one in mounts()):
            return
        unmount(tree, volume.source, lambda: "")
    _remove_units(tree, unit)
    _remove_folder(tree, volume.source)


def _remove_units(tree: Tree, *units: str) -> None:
    gone = [path for unit in units for path in (link_of(unit), unit)]
    if any(fact_of(tree, path) is not None for path in gone):
        for path in gone:
            remove_file(tree, path)
        if not tree.dry:
            tried("systemctl", "reset-failed", *(unit.rpartition("/")[2] for unit in units))
            must("systemctl", "daemon-reload")


def _remove_way(tree: Tree, seat: Seat) -> None:
    """The folders that were made for its view, down from that of the login, as far as empty."""
    place, top = seat.view, len(INSTANCES.split("/")) + 2
    while len(place.split("/")) > top:
        _remove_folder(tree, place)
        place = place.rpartition("/")[0]


def _remove_folder(tree: Tree, path: str) -> None:
    """Only if it is empty, and nothing is mounted there: rmdir(2) sees to both."""
    with parent_of(tree, path, make=False) as place:
        if place is None or tree.dry:
            return
        with suppress(OSError):
            os.rmdir(place[1], dir_fd=place[0])
