"""Creates a volume as it is asked for, once, and never anew.

What was made is known twice: beside the data, and on the host that has made it. Where either says
so and the data is not there, its disk or share is not, and an empty one in its place would be lost.
"""

from __future__ import annotations

import errno
import json
import os
import struct
from contextlib import suppress
from typing import Any, Optional

from .disks import check_fits, put_disk
from .files import fact_of, put_file, put_folder, read_bytes
from .mounts import mounted_at, mounts
from .paths import Refusal, Tree, parent_of
from .patience import comes_true
from .probes import ProbeError
from .stale_mounts import room_of
from .systemd_mounts import mount
from .volume_fences import LOCK, alone
from .volumes import VOLUMES, Volume

BEFORE_ITS_WORD = frozenset({LOCK, ".volume.json.gpuaas-new"})
"""What stands in the folder of a volume that nobody could write the word of yet, or that is wiped

but for that.
"""

PATIENCE_SECONDS, REST_SECONDS = 12.0, 0.5
"""For a disk that comes a moment after its host."""

ACL = "system.posix_acl_default"
ENTRIES = ((0x01, 7), (0x04, 7), (0x20, 0))
"""Of the owner, of the group and of others, as `acl(5)` numbers them: all, all and nothing."""


def reach(tree: Tree, volume: Volume) -> None:
    """Its place is there to be looked at. Raises Refusal, and has hung nowhere."""
    if not tree.whole_host:
        return
    if volume.backend == "nfs" and mounted_at(volume.source) is None:
        put_folder(tree, VOLUMES, "0700")
        mount(tree, volume.source)
    elif volume.shared and not any(_is_at_or_below(volume.place, one.point) for one in mounts()):
        raise Refusal("volume_missing", f"{volume.place}: no share is mounted there")
    try:
        room = room_of(volume.place)
    except ProbeError as error:
        raise Refusal("volume_not_answering", str(error)) from error
    if room is None and volume.backend == "directory" and volume.shared:
        # What is mounted above it may be this host's own: nobody makes, or misses, in there what
        # others have.
        raise Refusal("volume_missing", f"{volume.place} is not there: is its share mounted?")


def put_home(tree: Tree, volume: Volume, record: str, *, make: bool) -> None:
    """Its own folder, which says whose it is; what others have made there is not touched."""
    if _id_in(record.encode()) != volume.id:
        raise Refusal("item_invalid", f"the record is not that of {volume.id}")
    if not make and not _comes(tree, volume.folder):
        raise Refusal("volume_missing", f"{volume.folder} is not there, and is never made anew")
    if fact_of(tree, volume.folder) is not None:
        refuse_strangers(tree, volume)
    put_folder(tree, volume.folder, "0700")
    # Hosts that share the place may all come at one time, and write one file.
    with alone(tree, volume.folder):
        refuse_strangers(tree, volume)
        put_file(tree, volume.whose, record, "0600")


def put_volume(tree: Tree, volume: Volume, gid: int, size_gib: int, *, make: bool) -> None:
    """Its disk is as large as asked for, and its data its project's to read and write."""
    if volume.backend == "loop":
        filesystem = volume.about["filesystem"]
        put_disk(tree, volume.disk, filesystem, size_gib, make=make)
        put_folder(tree, VOLUMES, "0700")
        if mounted_at(volume.source) is None:
            mount(tree, volume.source)
        if tree.dry and mounted_at(volume.source) is None:
            return
    if fact_of(tree, volume.data) is None and not make:
        raise Refusal("volume_missing", f"{volume.data} is not there, and is never made anew")
    if not gid:
        put_folder(tree, volume.data, "0700")
        return
    put_folder(tree, volume.data, "2770", (os.geteuid(), gid))
    _put_acl(tree, volume)


def fill(tree: Tree, volume: Volume) -> None:
    """What is on its disk uses all of it. Where that cannot be, everything stays as it is."""
    if volume.backend == "loop":
        check_fits(tree, volume.disk, volume.source, volume.about["filesystem"])


def refuse_strangers(tree: Tree, volume: Volume) -> None:
    """Raises Refusal where what lies under its name is not it."""
    said = read_bytes(tree, volume.whose)
    if said is None:
        with parent_of(tree, f"{volume.folder}/", make=False) as place:
            found = set(os.listdir(place[0])) if place else set()
        if found - BEFORE_ITS_WORD:
            raise Refusal("volume_not_blank", f"{volume.folder} holds what nobody here has made")
    elif (known := _id_in(said)) != volume.id:
        raise Refusal("volume_not_blank", f"{volume.folder} is another volume: {known!r}"[:200])


def _comes(tree: Tree, path: str) -> bool:
    seconds = PATIENCE_SECONDS if tree.whole_host else 0
    return comes_true(lambda: fact_of(tree, path) is not None, seconds, REST_SECONDS)


def _id_in(record: bytes) -> Optional[Any]:
    with suppress(ValueError, KeyError, TypeError):
        return json.loads(record)["id"]
    return None


def _is_at_or_below(path: str, point: str) -> bool:
    return point != "/" and (path == point or path.startswith(f"{point}/"))


def _put_acl(tree: Tree, volume: Volume) -> None:
    """What is made in there is the project's, whatever umask somebody has."""
    with parent_of(tree, f"{volume.data}/", make=False) as place:
        if place is None or tree.dry:
            return
        entries = b"".join(struct.pack("<HHI", tag, rights, 0xFFFFFFFF) for tag, rights in ENTRIES)
        wanted = struct.pack("<I", 2) + entries
        try:
            found = os.getxattr(place[0], ACL)
        except OSError:
            found = b""
        if found == wanted:
            return
        try:
            os.setxattr(place[0], ACL, wanted)
        except OSError as error:
            # A server may have no such lists: there a person's umask decides, as everywhere on it.
            if volume.backend != "nfs" or error.errno != errno.EOPNOTSUPP:
                raise
        else:
            tree.changed = True
