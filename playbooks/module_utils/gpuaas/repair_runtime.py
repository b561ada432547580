"""runtime.repair: a bundle version is restored to what was installed.

What strangers have put in is named and goes; where something of ours is other, all of it is built
anew beside it and takes its place when it is whole. Nothing outside of its folder is touched.
"""

from __future__ import annotations

import os
from typing import Any

from .files import remove_file
from .paths import Tree
from .probes import printable
from .requirements import check
from .runtimes import changes_of, manifest_of, runtime_of
from .stage_runtime import KEYS as STAGE_KEYS
from .stage_runtime import begin, put_current, refuse_mounted, refuse_strange, sweep
from .wipe import remove_folder

KEYS = STAGE_KEYS
MAX_TOLD = 20


def run(tree: Tree, item: dict[str, Any]) -> None:
    runtime = runtime_of(item)
    check(item)
    sweep(tree)
    refuse_strange(tree, runtime)
    refuse_mounted(tree, runtime)
    place = f"{tree.path}{runtime.place}".replace("//", "/")
    manifest = manifest_of(place)
    if (
        manifest is None
        or manifest.lock_digest != item["lockDigest"]
        # Whoever is root may write a manifest as well: what is recorded elsewhere says so.
        or item["digest"] not in ("", manifest.digest)
    ):
        begin(tree, runtime, item, manifest.digest if manifest else "")
        return
    changes = list(changes_of(place, manifest, deep=True))
    _remove(tree, runtime.place, sorted(path for path, is_strange in changes if is_strange))
    if any(not is_strange for _, is_strange in changes):
        begin(tree, runtime, item)
    else:
        put_current(tree, runtime, item["current"])


def _remove(tree: Tree, place: str, strangers: list[str]) -> None:
    """What is deepest goes first."""
    if strangers:
        more = len(strangers) - MAX_TOLD
        told = ", ".join(map(printable, strangers[:MAX_TOLD]))
        tree.said["removed"] = told + (f" and {more} more" if more > 0 else "")
    for path in reversed(strangers):
        inside = f"{place}/{path}"
        whole = f"{tree.path}{inside}"
        if os.path.isdir(whole) and not os.path.islink(whole):
            remove_folder(tree, inside)
        else:
            remove_file(tree, inside)
