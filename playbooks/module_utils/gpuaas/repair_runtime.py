"""runtime.repair: a version of a bundle is again what was put there.

What strangers have put in is named and goes; where something of ours is other, all of it is built
anew beside it and takes its place when it is whole. Nothing outside of its folder is touched.
"""

from __future__ import annotations

import os
from typing import Any

from .files import remove_file
from .paths import Tree
from .probes import printable
from .runtimes import changes_of, manifest_of, runtime_of
from .stage_runtime import KEYS as STAGE_KEYS
from .stage_runtime import begin, put_current
from .wipe import remove_folder

KEYS = STAGE_KEYS
MAX_TOLD = 20


def run(tree: Tree, item: dict[str, Any]) -> None:
    runtime = runtime_of(item)
    place = f"{tree.path}{runtime.place}".replace("//", "/")
    manifest = manifest_of(place)
    if manifest is None or manifest.get("lockDigest") != item["lockDigest"]:
        begin(tree, runtime, item)
        return
    changes = list(changes_of(place, manifest))
    strangers = sorted(path for path, is_strange in changes if is_strange)
    if strangers:
        tree.said["removed"] = printable(", ".join(strangers[:MAX_TOLD]))
    for path in reversed(strangers):
        inside = f"{runtime.place}/{path}"
        if os.path.isdir(f"{place}/{path}") and not os.path.islink(f"{place}/{path}"):
            remove_folder(tree, inside)
        else:
            remove_file(tree, inside)
    if any(not is_strange for _, is_strange in changes):
        begin(tree, runtime, item)
    else:
        put_current(tree, runtime, item["current"])
