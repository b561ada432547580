"""allocation.quarantine: nobody is logged in and nothing runs any more; all data stays.

Whoever asks has taken its keys away before, so what ends here is not started again.
"""

from __future__ import annotations

from typing import Any

from .account import check_ours
from .files import remove_file
from .kill import end_everything
from .paths import Places, Tree

KEYS = {"id": str, "login": str, "uid": int}

LINGER = "/var/lib/systemd/linger"


def run(tree: Tree, item: dict[str, Any]) -> None:
    login, uid = item["login"], item["uid"]
    Places(item["id"], login, uid)
    if not uid:
        return
    # By its number things end; so it must not be the number of anybody else.
    check_ours(tree, login, uid, f"gpuaas {item['id']}")
    # What lingers would be started again by the next boot.
    remove_file(tree, f"{LINGER}/{login}")
    end_everything(tree, uid)
