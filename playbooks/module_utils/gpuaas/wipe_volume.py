"""storage.wipe: the data of a volume is gone, and nothing else is.

Only what nobody has: not by the record beside the data, not by anything mounted, and never through
a mount. The folder goes first and the word whose it was last.
"""

from __future__ import annotations

from typing import Any

from . import fencing
from .attached import link_of
from .detach import unmount
from .files import fact_of, remove_file
from .items import check_form
from .mounts import mounted_at, mounts
from .paths import Refusal, Tree
from .programs import must
from .volumes import BACKENDS, Volume, backend, unit_name, volume_of
from .wipe import remove_folder

KEYS = {"volume": str, "backend": backend, "record": str}


def run(tree: Tree, item: dict[str, Any]) -> None:
    ((word, about),) = item["backend"].items() or ((None, None),)
    if word is None:
        raise Refusal("item_invalid", "no backend")
    check_form(about, BACKENDS[word], word)
    volume = volume_of(item["volume"], item["backend"])
    if item["record"] != volume.record:
        raise Refusal("path_unsafe", f"{item['record']!r} is no record of {volume.id}")
    if word == "nfs":
        must("systemctl", "start", unit_name(volume.source))
    if fact_of(tree, volume.folder) is not None:
        _refuse_holders(tree, volume)
        if word == "loop" and tree.whole_host:
            _put_away(tree, volume)
        remove_folder(tree, volume.folder)
    if word == "nfs":
        _put_away(tree, volume)
    remove_file(tree, volume.record)


def _refuse_holders(tree: Tree, volume: Volume) -> None:
    held = [f"{one.allocation} on {one.machine}" for one in fencing.holders(tree, volume.folder)]
    if held:
        raise Refusal("storage_in_use", f"{volume.folder}: {', '.join(held)}")
    shown = [one.point for one in mounts() if one.root.endswith(f"/{volume.id}/data")]
    if shown:
        raise Refusal("storage_in_use", f"{volume.folder} is mounted at {', '.join(shown)}")


def _put_away(tree: Tree, volume: Volume) -> None:
    mount, unit = mounted_at(volume.source), volume.source_unit
    if mount is not None:
        unmount(tree, volume.source, {mount.what})
    if unit is not None:
        remove_file(tree, link_of(unit))
        remove_file(tree, unit)
        if tree.changed and not tree.dry:
            must("systemctl", "daemon-reload")
