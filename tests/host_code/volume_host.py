"""What the tests of storage on hosts share: one volume, and hosts that are folders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuaas import attach, detach, forget_volume, wipe_volume
from gpuaas.paths import Refusal, Tree

VOLUME, OTHER = "volumeaaaa", "volumebbbb"
ID, LOGIN = "abcdefghij", "train-a-abcd"
PLACE = "/srv/volumes"
DIRECTORY = {"directory": {"path": PLACE, "shared": False}}
SHARED = {"directory": {"path": PLACE, "shared": True}}
RECORD = f"/etc/gpuaas/volumes/{VOLUME}.json"


@contextmanager
def opened(root: Path, *, dry: bool = False) -> Iterator[Tree]:
    folder = os.open(root, os.O_RDONLY)
    try:
        yield Tree(folder, dry=dry)
    finally:
        os.close(folder)


def host(root: Path, machine: str = "1" * 32) -> Path:
    (root / "etc").mkdir(parents=True)
    (root / "etc/machine-id").write_text(f"{machine}\n")
    return root


def had(**changes: Any) -> dict[str, Any]:
    """One volume as an item of storage.attach asks for it."""
    id = changes.get("id", VOLUME)
    record = json.dumps({"id": id, "stateId": "s"}) + "\n"
    return {
        "id": VOLUME,
        "name": "data",
        "backend": DIRECTORY,
        "sizeGiB": 1,
        "access": "single_writer",
        "mode": "rw",
        "mountPath": "/data",
        "make": True,
        "fenced": [],
        "record": record,
        "files": [],
        **changes,
    }


def attached(root: Path, *volumes: dict[str, Any], id: str = ID, login: str = LOGIN) -> bool:
    """Whether that changed anything. Raises Refusal."""
    with opened(root) as tree:
        item = {"id": id, "login": login, "uid": 0, "gid": 0, "volumes": list(volumes)}
        attach.run(tree, item)
        return tree.changed


def detached(root: Path, id: str = ID, login: str = LOGIN, **changes: Any) -> bool:
    known = {"id": VOLUME, "name": "data", "backend": DIRECTORY, "mountPath": "/data"}
    with opened(root) as tree:
        one = {**known, "absent": [], "last": True, **changes}
        detach.run(tree, {"id": id, "login": login, "uid": 0, "end": False, "volumes": [one]})
        return tree.changed


def wiped(root: Path, backend: dict[str, Any] = DIRECTORY) -> None:
    with opened(root) as tree:
        wipe_volume.run(tree, {"volume": VOLUME, "backend": backend, "record": RECORD})


def forgotten(root: Path, backend: dict[str, Any] = DIRECTORY) -> bool:
    with opened(root) as tree:
        forget_volume.run(tree, {"volume": VOLUME, "backend": backend, "record": RECORD})
        return tree.changed


def refused(work: Any, *arguments: Any, **named: Any) -> tuple[str, str]:
    """The code and the words with which this is refused."""
    try:
        work(*arguments, **named)
    except Refusal as refusal:
        return refusal.code, refusal.message
    return "", ""
