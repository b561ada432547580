"""allocation.provide: the folders, files and account of an allocation are made as asked.

The account comes last: from its first moment on it is confined.
"""

from __future__ import annotations

from typing import Any

from . import account, cron_deny, quotas, subids
from .files import put_file, put_folder
from .home import put_home
from .items import FILE, FOLDER, Maybe
from .paths import Places, Tree, owned
from .quota_shares import share_of
from .slices import confine

KEYS = {
    "id": str,
    "login": str,
    "directories": [{**FOLDER, "uid": int, "gid": int}],
    "files": [FILE],
    "account": Maybe(account.KEYS),
}


def run(tree: Tree, item: dict[str, Any]) -> None:
    """What is to be refused is refused before anything is touched."""
    if not tree.dry:
        _make(Tree(tree.root, True), item)
    _make(tree, item)


def _make(tree: Tree, item: dict[str, Any]) -> None:
    wanted = account.wanted_of(item) if item["account"] else None
    share = share_of(item) if wanted else None
    places = Places(item["id"], item["login"], wanted.uid if wanted else 0)
    if wanted:
        account.check_free(tree, wanted)
        subids.check(wanted.uid, item["account"]["subids"])
        subids.check_free(tree, wanted.login, wanted.uid)
    for file in item["files"]:
        put_file(tree, owned(file["path"], places.files), file["content"], file["mode"])
    for folder in item["directories"]:
        path, owner = owned(folder["path"], places.folders), (folder["uid"], folder["gid"])
        if wanted and path == wanted.home:
            put_home(tree, path, folder["mode"], owner)
        else:
            put_folder(tree, path, folder["mode"], owner if folder["uid"] else None)
    if share:
        quotas.put(tree, share)
    if wanted:
        cron_deny.deny(tree, wanted.login)
        confine(tree, wanted.login, wanted.uid, item["account"]["shmBytes"])
        account.put_account(tree, wanted)
        subids.put(tree, wanted.login, item["account"]["subids"])
