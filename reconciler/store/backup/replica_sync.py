"""Replica sync: how far the copy of a state has come, as Litestream reports on its socket.

It says when all that it knew of was in the copy. Whether the copy is still there it finds out only
with the next change: nobody but a restore reads it.
"""

from __future__ import annotations

import json
import re
import socket
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from reconciler.model.moment import parse_moment
from reconciler.store.backup.litestream import CONTROL, FOLDER, opened_folder

PATIENCE_SECONDS = 0.5
MOST_BYTES = 1 << 16
BELOW_SECONDS = re.compile(r"\.[0-9]+")


class _Control(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def last_sync(database: Path) -> datetime | None:
    """When all of this state was in the copy last; None where nobody says so.

    Nobody copies it, nothing was copied yet, Litestream hangs, or it is older than 0.5.8.
    """
    try:
        with opened_folder(database.parent / FOLDER) as (_, short):
            known = _databases(f"{short}/{CONTROL}")
    except (OSError, HTTPException, ValueError):
        return None
    said = (one.get("last_sync_at", "") for one in known if one.get("path") == str(database))
    return parse_moment(BELOW_SECONDS.sub("", str(next(said, ""))))


def _databases(path: str) -> list[Any]:
    control = _Control(path)
    try:
        control.request("GET", "/list")
        answer = json.loads(control.getresponse().read(MOST_BYTES))
    finally:
        control.close()
    found = answer.get("databases") if isinstance(answer, dict) else None
    return [one for one in found or () if isinstance(one, dict)]
