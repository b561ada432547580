"""storage.reopen: files that an ended allocation left in a volume get another owner.

Asked for by a person, for exactly one uid. Each call works for a while and says whether there is
more; how far it has come stands beside the data, so that the next call goes on there, whoever asks.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

from . import create_volume
from .account import check_ours
from .files import fact_of, put_file, put_folder, read_bytes, remove_file
from .owners import Change, Progress, told
from .passwd import Accounts
from .paths import ALLOCATION_ID, FOLDER, UIDS, Places, Refusal, Tree, parent_of
from .processes import refuse as refuse_processes
from .processes import running
from .volume_fences import Fence, alone, machine_of
from .volumes import PROGRESS, Volume, backend, volume_of

KEYS = {
    "id": str,
    "login": str,
    "uid": int,
    "volume": str,
    "backend": backend,
    "fenced": [str],
    "from": str,
    "fromUid": int,
}

CALL_SECONDS = 20.0
"""Whoever is to be shut out on this host waits for no longer than that."""


def run(tree: Tree, item: dict[str, Any]) -> None:
    volume = volume_of(item["volume"], item["backend"])
    _check(item)
    create_volume.reach(tree, volume)
    if fact_of(tree, volume.folder) is None or fact_of(tree, volume.data) is None:
        raise Refusal("volume_missing", f"{volume.data} is not there")
    create_volume.refuse_strangers(tree, volume)
    _refuse_the_living(tree, item)
    with alone(tree, volume.folder):
        _refuse_holders(tree, volume, item)
    if not tree.dry:
        _change(tree, volume, item)


def _check(item: dict[str, Any]) -> None:
    Places(item["id"], item["login"], item["uid"])
    if not ALLOCATION_ID.fullmatch(item["from"]) or item["from"] == item["id"]:
        raise Refusal("item_invalid", f"no other allocation: {item['from']!r}")
    if not {item["uid"], item["fromUid"]} <= {*UIDS} or item["uid"] == item["fromUid"]:
        raise Refusal("item_invalid", "no two uids of tenants")


def _refuse_the_living(tree: Tree, item: dict[str, Any]) -> None:
    """Whoever gets it has an account here, and whoever had it is nobody any more."""
    login, uid, old = item["login"], item["uid"], item["fromUid"]
    check_ours(tree, login, uid, f"gpuaas {item['id']}")
    if Accounts(tree.path).user(login) is None:
        raise Refusal("account_conflict", f"{login} has no account here")
    # By no login is it anybody's: an account that has this number, wherever from, is in the way.
    check_ours(tree, "", old, "")
    if fact_of(tree, f"/etc/gpuaas/allocations/{item['from']}.json") is not None:
        raise Refusal("storage_in_use", f"allocation {item['from']} is still on this host")
    if tree.whole_host:
        refuse_processes(running("/", old))


def _refuse_holders(tree: Tree, volume: Volume, item: dict[str, Any]) -> None:
    """As it stands beside the data, where every host that reaches it has written."""
    fence = Fence(volume.folder, machine_of(tree), volume.shared)
    having = [(one.allocation, one.machine) for one in fence.living(tree)]
    for allocation, machine in having:
        if allocation == item["from"] and allocation not in item["fenced"]:
            raise Refusal("storage_in_use", f"{allocation} has it on machine {machine}")
    if (item["id"], fence.machine) not in having:
        raise Refusal("volume_not_mounted", f"{item['id']} does not have it on this host")


def _change(tree: Tree, volume: Volume, item: dict[str, Any]) -> None:
    place = f"{volume.folder}/{PROGRESS}"
    kept = f"{place}/{item['from']}.{item['id']}.json"
    change = Change(item["fromUid"], item["uid"], _progress(tree, kept), CALL_SECONDS)
    with parent_of(tree, f"{volume.data}/", make=False) as data:
        if data is None:
            raise Refusal("volume_missing", f"{volume.data} is not there")
        folder = os.open(".", FOLDER, dir_fd=data[0])
        try:
            whole = change.go_on(folder)
        finally:
            os.close(folder)
    if whole:
        remove_file(tree, kept)
    else:
        put_folder(tree, place, "0700")
        put_file(tree, kept, json.dumps(change.progress.told()), "0600")
    progress = change.progress
    tree.changed = change.changed > 0
    tree.said["reopened"] = f"{'all' if whole else 'more'} {progress.changed}"
    tree.said["left"] = told(progress.left, progress.examples)


def _progress(tree: Tree, path: str) -> Progress:
    """From the beginning where nobody can read it: what has been done is done no second time."""
    with suppress(ValueError, TypeError, AttributeError):
        return Progress(json.loads(read_bytes(tree, path) or b"null"))
    return Progress()
