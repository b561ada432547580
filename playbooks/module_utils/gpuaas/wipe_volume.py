"""storage.wipe: the data of a volume is removed, and nothing else is.

Only what nobody has: not by what stands beside the data, not by anything mounted, and never
through a mount. The data goes first, then the host's word of it, and its folder last: a folder
that is missing while that word stands was not wiped, its disk is away.
"""

from __future__ import annotations

import os
from typing import Any

from . import create_volume, quotas
from .detach import put_away
from .files import fact_of, put_folder, remove_file
from .mount_places import shows
from .mounts import mounted_at, mounts
from .paths import Refusal, Tree, parent_of
from .programs import must
from .volume_fences import HOLDERS, Fence, alone, machine_of
from .volumes import PROGRESS, VOLUMES, Volume, backend, volume_of
from .wipe import remove_folder

KEYS = {"volume": str, "backend": backend, "record": str}


def run(tree: Tree, item: dict[str, Any]) -> None:
    volume = volume_of(item["volume"], item["backend"])
    if item["record"] != volume.record:
        raise Refusal("path_unsafe", f"{item['record']!r} is no record of {volume.id}")
    if volume.backend == "nfs" and not tree.dry:
        _mount_share(tree, volume)
    create_volume.reach(tree, volume)
    if fact_of(tree, volume.folder) is not None:
        with alone(tree, volume.folder):
            _refuse_holders(tree, volume)
            create_volume.refuse_strangers(tree, volume)
            _remove_data(tree, volume)
            for name in (HOLDERS, PROGRESS):
                remove_folder(tree, f"{volume.folder}/{name}")
            remove_file(tree, volume.record)
            quotas.renew(tree)
            remove_folder(tree, volume.folder)
    elif fact_of(tree, volume.record) is not None:
        raise Refusal("volume_missing", f"{volume.folder} is not there: is its disk mounted?")
    if tree.whole_host:
        put_away(tree, volume)


def _mount_share(tree: Tree, volume: Volume) -> None:
    """Its unit has gone with the last who had it."""
    if mounted_at(volume.source) is None:
        put_folder(tree, VOLUMES, "0700")
        put_folder(tree, volume.source, "0755")
        server = volume.about["server"]
        # As mount takes it, and as the unit of the share has it.
        what = f"{f'[{server}]' if ':' in server else server}:{volume.about['export']}"
        options = ",".join(("nodev", "nosuid", *volume.about["options"]))
        must("mount", "-t", "nfs", "-o", options, what, volume.source)


def _refuse_holders(tree: Tree, volume: Volume) -> None:
    fence = Fence(volume.folder, machine_of(tree), volume.shared)
    held = [f"{one.allocation} on {one.machine}" for one in fence.living(tree)]
    if held:
        raise Refusal("storage_in_use", f"{volume.folder}: {', '.join(held)}")
    source = mounted_at(volume.source)
    if shown := [one.point for one in mounts() if shows(one, volume.id, source)]:
        raise Refusal("storage_in_use", f"{volume.folder} is mounted at {', '.join(shown)}")


def _remove_data(tree: Tree, volume: Volume) -> None:
    if volume.backend != "loop":
        if fact_of(tree, volume.data) is not None:
            remove_folder(tree, volume.data)
        return
    if tree.whole_host:
        put_away(tree, volume)
        if mounted_at(volume.source) is not None:
            raise Refusal("storage_in_use", f"{volume.disk} is mounted at {volume.source}")
    for disk in (volume.disk, f"{volume.disk}.gpuaas-new"):
        _empty(tree, disk)
        remove_file(tree, disk)


def _empty(tree: Tree, disk: str) -> None:
    """Nothing is left of it even for a namespace in which it is mounted still."""
    with parent_of(tree, disk, make=False) as place:
        if place is None or tree.dry or fact_of(tree, disk) is None:
            return
        flags = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW
        os.close(os.open(place[1], flags, dir_fd=place[0]))
