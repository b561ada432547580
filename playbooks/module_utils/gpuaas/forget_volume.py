"""storage.forget: a host drops its record of data that was wiped through another host.

Where the data is there all the same nothing is touched: that it was wiped is wrong then.
"""

from __future__ import annotations

from typing import Any

from . import quotas
from .detach import put_away
from .files import fact_of, remove_file
from .mounts import mounted_at
from .paths import Refusal, Tree
from .probes import ProbeError
from .stale_mounts import room_of
from .volumes import Volume, backend, volume_of

KEYS = {"volume": str, "backend": backend, "record": str}


def run(tree: Tree, item: dict[str, Any]) -> None:
    volume = volume_of(item["volume"], item["backend"])
    if item["record"] != volume.record:
        raise Refusal("path_unsafe", f"{item['record']!r} is no record of {volume.id}")
    if _is_there(tree, volume):
        raise Refusal("volume_not_blank", f"{volume.folder} is there, and was to be wiped")
    remove_file(tree, volume.record)
    quotas.renew(tree)
    if tree.whole_host:
        put_away(tree, volume)


def _is_there(tree: Tree, volume: Volume) -> bool:
    """A share that nobody has mounted here is not mounted for this: it was looked at elsewhere."""
    if volume.backend == "nfs" and mounted_at(volume.source) is None:
        return False
    if tree.whole_host:
        try:
            room_of(volume.place)
        except ProbeError as error:
            raise Refusal("volume_not_answering", str(error)) from error
    return fact_of(tree, volume.folder) is not None
