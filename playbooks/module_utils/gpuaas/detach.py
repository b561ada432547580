"""storage.detach: an allocation has these volumes no longer; all that is on them stays.

Nothing is taken from under anybody who works on it: who does is named, and it stays mounted. An
unmount that only hides it is none.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any, Optional

from . import fencing
from .attached import OURS, Seat, link_of, namespaces_with, seat_of, users_of
from .files import fact_of, remove_file
from .items import check_form
from .mounts import mounted_at, mounts
from .paths import INSTANCES, Places, Refusal, Tree, owned, parent_of
from .probes import call, failure
from .programs import must
from .volumes import BACKENDS, Volume, backend, unit_name, volume_of

KEYS = {
    "id": str,
    "login": str,
    "uid": int,
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

PATIENCE_SECONDS, REST_SECONDS = 5.0, 0.2
MAX_TOLD = 10


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
    seat = seat_of(item, one["name"], one["mountPath"])
    volume = _volume(one)
    if not item["uid"]:
        remove_file(tree, seat.real)
    elif tree.whole_host:
        _unmount(tree, seat, one, volume)
    if volume is not None and fact_of(tree, volume.folder) is not None:
        fencing.let_go(tree, volume.folder, seat.allocation)
    if volume is not None and one["last"] and tree.whole_host:
        _put_away(tree, volume)


def _volume(one: dict[str, Any]) -> Optional[Volume]:
    """None where nobody knows any more what it lies on: then it is unmounted, and no more."""
    if not one["backend"]:
        return None
    ((word, about),) = one["backend"].items()
    check_form(about, BACKENDS[word], word)
    return volume_of(one["id"], one["backend"])


def _unmount(tree: Tree, seat: Seat, one: dict[str, Any], volume: Optional[Volume]) -> None:
    """The view first, then what it is a view of, and nothing of them in anybody's namespace."""
    legal = (*seat.units, *((volume.source_unit,) if volume and volume.source_unit else ()))
    absent = [owned(path, legal) for path in one["absent"]]
    whats = {mount.what for mount in map(mounted_at, seat.places) if mount is not None}
    for place in reversed(seat.places):
        unmount(tree, place, whats)
    _refuse_hidden(tree, whats, seat)
    for unit in absent:
        if unit in seat.units:
            remove_file(tree, link_of(unit))
            remove_file(tree, unit)
    for place in reversed(seat.places):
        _remove_place(tree, place)
    if tree.changed and not tree.dry:
        must("systemctl", "daemon-reload")


def unmount(tree: Tree, place: str, whats: set[tuple[str, str]]) -> None:
    """Raises Refusal, naming who uses it, where it does not let go within a moment."""
    until = time.monotonic() + PATIENCE_SECONDS
    while mounted_at(place) is not None:
        tree.changed = True
        if tree.dry:
            return
        done = call("systemctl", "stop", unit_name(place))
        if mounted_at(place) is not None:
            done = call("umount", "--no-canonicalize", place)
        if mounted_at(place) is not None:
            if time.monotonic() > until:
                raise _busy(place, whats, failure("umount", done))
            time.sleep(REST_SECONDS)


def _refuse_hidden(tree: Tree, whats: set[tuple[str, str]], seat: Seat) -> None:
    """A session may have it at a place of its own, where the host's unmount does not reach."""
    if tree.dry or not whats:
        return
    until = time.monotonic() + PATIENCE_SECONDS
    while left := [who for who in namespaces_with(whats) if _is_of(who, seat)]:
        if time.monotonic() > until:
            raise Refusal("storage_busy", f"still mounted in the session of {told(left)}")
        time.sleep(REST_SECONDS)


def _is_of(who: str, seat: Seat) -> bool:
    """A neighbour may have the same volume, which is his own business."""
    from_pid = who.split(" ")[0]
    with suppress(OSError), open(f"/proc/{from_pid}/cgroup", encoding="ascii") as file:
        slice_of = file.read()
        uid = os.stat(f"/home/{seat.login}").st_uid
        return f"user-{uid}.slice" in slice_of
    return False


def _busy(place: str, whats: set[tuple[str, str]], said: str) -> Refusal:
    who = list(users_of(whats))
    return Refusal(
        "storage_busy", f"{place} is in use by {told(who)}" if who else f"{place}: {said}"
    )


def told(who: list[str]) -> str:
    more = len(who) - MAX_TOLD
    return ", ".join(who[:MAX_TOLD]) + (f" and {more} more" if more > 0 else "")


def _put_away(tree: Tree, volume: Volume) -> None:
    """With the last who had it here, what its data lies on is unmounted too."""
    unit = volume.source_unit
    if unit is None:
        return
    mount = mounted_at(volume.source)
    if mount is not None and any(
        one.device == mount.device and one.point.startswith(f"{OURS}/") for one in mounts()
    ):
        return
    unmount(tree, volume.source, {mount.what} if mount else set())
    remove_file(tree, link_of(unit))
    remove_file(tree, unit)
    _remove_folder(tree, volume.source)
    if tree.changed and not tree.dry:
        must("systemctl", "daemon-reload")


def _remove_place(tree: Tree, place: str) -> None:
    """Folders that were made for it, as far as they are empty; never what somebody put there."""
    if place.startswith(f"{OURS}/"):
        _remove_folder(tree, place)
        return
    top = "/".join(place.split("/")[:7])
    while place.startswith(INSTANCES) and place != top and len(place.split("/")) > 7:
        _remove_folder(tree, place)
        place = place.rpartition("/")[0]


def _remove_folder(tree: Tree, path: str) -> None:
    """Only if it is empty, and nothing is mounted there: rmdir(2) sees to both."""
    with parent_of(tree, path, make=False) as place:
        if place is None or tree.dry or mounted_at(path) is not None:
            return
        with suppress(FileNotFoundError, OSError):
            os.rmdir(place[1], dir_fd=place[0])
