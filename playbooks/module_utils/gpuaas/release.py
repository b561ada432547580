"""allocation.release: everything that was made for an allocation is removed, and nothing else.

What runs ends first, then what lies about goes, and last the word whose it was. Files of its uid
outside of its places are for the proof to find, never for us to remove.
"""

from __future__ import annotations

from typing import Any

from . import cron_deny, network, quotas, reserve, subids
from .account import check_ours, remove_account
from .files import names_of, remove_file
from .kill import end_everything
from .paths import Places, Refusal, Tree, owned
from .processes import refuse, running
from .slices import take_up, unconfine
from .wipe import remove_folder

KEYS = {"id": str, "login": str, "absent": [str], "uid": int, "gid": int}

BY_NAME = ("/var/lib/systemd/linger", "/var/spool/cron/crontabs", "/var/mail")
BY_OWNER = ("/var/spool/cron/atjobs", "/var/spool/cron/atspool")


def run(tree: Tree, item: dict[str, Any]) -> None:
    login, uid = item["login"], item["uid"]
    places = Places(item["id"], login, uid)
    paths = [owned(path, places.folders + places.files + places.keys) for path in item["absent"]]
    last = [path for path in paths if path in places.files[:1]]
    if uid:
        # By its number things end and go; so it must not be the number of anybody else.
        check_ours(tree, login, uid, f"gpuaas {item['id']}")
        _remove_spools(tree, login, uid)
        end_everything(tree, uid)
        unconfine(tree, login)
        quotas.lift(tree, uid)
    _remove(tree, [path for path in paths if path not in last], places)
    if uid:
        take_up(tree, login, uid)
        network.take_up(tree)
        cron_deny.forget(tree, login)
        subids.put(tree, login, 0)
        if tree.borrows and not tree.dry:
            reserve.make_room()
        _remove_account(tree, login, uid, item["gid"])
    _remove(tree, last, places)


def _remove(tree: Tree, paths: list[str], places: Places) -> None:
    for path in paths:
        if path in places.folders:
            remove_folder(tree, path)
        else:
            remove_file(tree, path)


def _remove_spools(tree: Tree, login: str, uid: int) -> None:
    """Before its processes: nothing of it is started any more."""
    for place in BY_NAME:
        remove_file(tree, f"{place}/{login}")
    for place in BY_OWNER:
        for name in names_of(tree, place, uid):
            remove_file(tree, f"{place}/{name}")


def _remove_account(tree: Tree, login: str, uid: int, gid: int) -> None:
    """Whatever the tool for it says: what has come back meanwhile is the reason."""
    try:
        remove_account(tree, login, gid)
    except Refusal:
        if tree.whole_host:
            refuse(running("/", uid))
        raise
