"""Volumes: where the data of a storage lies on a host, made once and never made anew.

A volume is a folder of its own below the place of its class. Its owner stands in there beside the
data, so that whoever finds it knows whose it is, and so does who has it just now (`fencing`).
"""

from __future__ import annotations

import json
import os
import re
import struct
from typing import Any, NamedTuple, Optional

from .disks import check_fits, put_disk
from .files import fact_of, put_file, put_folder, read_bytes
from .mounts import mounted_at
from .paths import ALLOCATION_ID, UNITS, Refusal, Tree, parent_of
from .programs import must

VOLUMES, RECORDS = "/var/lib/gpuaas/volumes", "/etc/gpuaas/volumes"
NAME = re.compile(r"[a-z](-?[a-z0-9])*")
PLACE = re.compile(r"(/[A-Za-z0-9._+@-]+)+")
SERVER = re.compile(r"[A-Za-z0-9.:\[\]-]{1,255}")
OPTION = re.compile(r"[a-z]+(=[a-z0-9.]+)?")
NOT_PLACES = ("/etc", "/proc", "/sys", "/dev", "/run", "/usr", "/boot", "/home", VOLUMES)

DIRECTORY = {"path": str, "shared": bool}
LOOP = {"path": str, "filesystem": str}
NFS = {"server": str, "export": str, "options": [str]}
BACKENDS: dict[str, Any] = {"directory": DIRECTORY, "loop": LOOP, "nfs": NFS}

ACL = "system.posix_acl_default"
ENTRIES = ((0x01, 7), (0x04, 7), (0x20, 0))
"""Of the owner, of the group and of others, as `acl(5)` numbers them: all, all and nothing."""

WHOSE, DATA = "volume.json", "data"


class Volume(NamedTuple):
    """`backend` is the word of it, `about` what its class says of it."""

    id: str
    backend: str
    about: dict[str, Any]

    @property
    def place(self) -> str:
        """The folder below which volumes of its class lie."""
        if self.backend == "nfs":
            return self.source
        path: str = self.about["path"]
        return path.rstrip("/")

    @property
    def folder(self) -> str:
        """Its own folder, with its data or the disk of it."""
        return f"{self.place}/{self.id}"

    @property
    def source(self) -> str:
        """Where it, or the share that it is on, is mounted; nothing is for a plain folder."""
        return f"{VOLUMES}/{self.id}"

    @property
    def data(self) -> str:
        return f"{self.source if self.backend == 'loop' else self.folder}/{DATA}"

    @property
    def disk(self) -> str:
        return f"{self.folder}/disk.img"

    @property
    def record(self) -> str:
        return f"{RECORDS}/{self.id}.json"

    @property
    def source_unit(self) -> Optional[str]:
        return None if self.backend == "directory" else unit_of(self.source)


def backend(value: Any, what: str) -> None:
    """The form of a backend in an item; none where nobody knows any more what it was."""
    if not isinstance(value, dict) or len(value) > 1 or not set(value) <= {*BACKENDS}:
        raise Refusal("item_invalid", f"{what}: no backend")


def volume_of(id: str, stated: dict[str, Any]) -> Volume:
    """Judged again here: an id, and places that are no system's own."""
    if not ALLOCATION_ID.fullmatch(id):
        raise Refusal("item_invalid", f"no volume id: {id!r}")
    ((word, about),) = stated.items()
    for path in (about.get("path"), about.get("export")):
        if path is not None and (not PLACE.fullmatch(path) or ".." in path.split("/")):
            raise Refusal("path_unsafe", f"no place for volumes: {path!r}")
    place = about.get("path")
    if place and any(place == one or place.startswith(f"{one}/") for one in NOT_PLACES):
        raise Refusal("path_unsafe", f"{place} is no place for volumes")
    if word == "loop" and about["filesystem"] not in ("ext4", "xfs"):
        raise Refusal("item_invalid", f"no file system: {about['filesystem']!r}")
    if word == "nfs" and not (
        SERVER.fullmatch(about["server"]) and all(map(OPTION.fullmatch, about["options"]))
    ):
        raise Refusal("item_invalid", "no share of a server")
    return Volume(id=id, backend=word, about=about)


def put_volume(tree: Tree, volume: Volume, gid: int, size_gib: int, *, make: bool) -> None:
    """It is there, as large as asked for, and its data can be reached by its project.

    Made only if `make` says that it never was; where it should be and is not, nothing is.
    """
    if volume.backend == "nfs":
        must("systemctl", "start", unit_name(volume.source))
    there = fact_of(tree, volume.folder) is not None
    if there:
        _refuse_strangers(tree, volume)
    elif not make:
        raise Refusal("volume_missing", f"{volume.folder} is not there, and is never made anew")
    else:
        _refuse_bare_mounts(tree, volume)
        put_folder(tree, volume.folder, "0711")
    put_file(tree, f"{volume.folder}/{WHOSE}", json.dumps({"id": volume.id}) + "\n", "0600")
    if volume.backend == "loop":
        put_disk(tree, volume.disk, volume.about["filesystem"], size_gib, make=make)
        _mount(tree, volume)
        check_fits(tree, volume.disk, volume.source, volume.about["filesystem"])
    _put_data(tree, volume, gid, make=make)


def refuse_unreachable(tree: Tree, volume: Volume) -> None:
    """Raises Refusal where it cannot be looked at: then nobody knows who has it."""
    if fact_of(tree, volume.folder) is None:
        raise Refusal("volume_missing", f"{volume.folder} is not there")


def unit_name(place: str) -> str:
    return place.strip("/").replace("-", "\\x2d").replace("/", "-") + ".mount"


def unit_of(place: str) -> str:
    """systemd names a mount unit by its place, and writes a dash in there as `\\x2d`."""
    return f"{UNITS}/{unit_name(place)}"


def _refuse_strangers(tree: Tree, volume: Volume) -> None:
    """What lies there under its name was made by us, or is not touched."""
    said = read_bytes(tree, f"{volume.folder}/{WHOSE}")
    if said is None:
        with parent_of(tree, f"{volume.folder}/", make=False) as place:
            if place is not None and not os.listdir(place[0]):
                return
        raise Refusal("volume_not_blank", f"{volume.folder} holds what nobody here has made")
    try:
        known = json.loads(said)["id"]
    except (ValueError, KeyError, TypeError):
        known = "unreadable"
    if known != volume.id:
        raise Refusal("volume_not_blank", f"{volume.folder} is another volume: {known!r}"[:200])


def _refuse_bare_mounts(tree: Tree, volume: Volume) -> None:
    """A share that is not mounted looks like an empty folder: what is made in there is lost."""
    if volume.about.get("shared") and tree.whole_host and fact_of(tree, volume.place) is None:
        raise Refusal("volume_missing", f"{volume.place} is not there: is its share mounted?")


def _mount(tree: Tree, volume: Volume) -> None:
    if tree.dry:
        return
    put_folder(tree, volume.source, "0755")
    if mounted_at(volume.source) is None:
        tree.changed = True
        must("systemctl", "start", unit_name(volume.source))
    if mounted_at(volume.source) is None:
        raise Refusal("volume_not_mounted", f"nothing is mounted at {volume.source}")


def _put_data(tree: Tree, volume: Volume, gid: int, *, make: bool) -> None:
    """The project's folder: what is made in there is the project's, whatever umask somebody has."""
    if fact_of(tree, volume.data) is None and not make:
        raise Refusal("volume_missing", f"{volume.data} is not there, and is never made anew")
    if not gid:
        put_folder(tree, volume.data, "0700")
        return
    put_folder(tree, volume.data, "2770", (os.geteuid(), gid))
    with parent_of(tree, f"{volume.data}/", make=False) as place:
        if place is None or tree.dry:
            return
        wanted = _default_acl()
        try:
            found = os.getxattr(place[0], ACL)
        except OSError:
            found = b""
        if found != wanted:
            tree.changed = True
            os.setxattr(place[0], ACL, wanted)


def _default_acl() -> bytes:
    entries = b"".join(struct.pack("<HHI", tag, rights, 0xFFFFFFFF) for tag, rights in ENTRIES)
    return struct.pack("<I", 2) + entries
