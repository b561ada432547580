"""access.sync: the key file of a login holds exactly the keys asked for, or is gone.

The whole file is written at once, never key by key, and sessions that were opened with another
key end; a person's own files are not ours.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from typing import Any, Optional

from .files import fact_of, put_file, read_by, remove_file
from .items import FILE
from .logins import try_door
from .paths import Places, Refusal, Tree, owned, parent_of
from .sessions import end_others

KEYS = {"id": str, "login": str, "files": [FILE], "absent": [str], "uid": int, "gid": int}

KEY_LINE = re.compile(
    r"(?:(?P<options>\S+) )?"
    r"(?P<type>ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-ssh-ed25519@openssh\.com|"
    r"sk-ecdsa-sha2-nistp256@openssh\.com) (?P<blob>[A-Za-z0-9+/]+={0,2})(?: [\w.@/+-]+)?",
    re.ASCII,
)
OPTIONS = re.compile(
    r'(?:from="[0-9A-Fa-f.:/,]+"(?:,|$))?'
    r"(?:no-agent-forwarding,no-port-forwarding,no-X11-forwarding)?",
    re.ASCII,
)
"""What a grant may narrow; nothing that could run anything or set a session up."""


def run(tree: Tree, item: dict[str, Any]) -> None:
    places = Places(item["id"], item["login"], item["uid"])
    keys: frozenset[str] = frozenset()
    for file in item["files"]:
        keys |= keys_of(file["content"])
        path = owned(file["path"], places.keys)
        opens = bool(keys and item["uid"]) and tree.whole_host and fact_of(tree, path) is None
        if opens and not tree.dry:
            try_door(tree, item["login"], path)
        put_file(tree, path, file["content"], file["mode"], read_by(item["gid"]))
        check_way(tree, file["path"])
    for path in item["absent"]:
        remove_file(tree, owned(path, places.keys))
    if item["uid"] and tree.whole_host:
        end_others(tree, item["login"], item["uid"], keys)


def keys_of(content: str) -> frozenset[str]:
    """The blobs of its keys. Lines are comments or one public key each, and the last is ended."""
    if content and not content.endswith("\n"):
        raise Refusal("item_invalid", "the last line of the keys has no end")
    blobs = set()
    for number, line in enumerate(content.split("\n"), start=1):
        if line and not (line.startswith("#") and line.isprintable()):
            blob = blob_of(line)
            if blob is None:
                raise Refusal("item_invalid", f"line {number} of the keys is no plain public key")
            blobs.add(blob)
    return frozenset(blobs)


def blob_of(line: str) -> Optional[str]:
    match = KEY_LINE.fullmatch(line)
    if match is None or not OPTIONS.fullmatch(match.group("options") or ""):
        return None
    name, blob = match.group("type").encode("ascii"), match.group("blob")
    try:
        decoded = base64.b64decode(blob, validate=True)
    except binascii.Error:
        return None
    return blob if decoded.startswith(len(name).to_bytes(4, "big") + name) else None


def check_way(tree: Tree, path: str) -> None:
    """Raises Refusal where sshd would refuse everybody, since others could change what it reads."""
    parts = path.strip("/").split("/")
    for depth in range(1, len(parts)):
        place = "/" + "/".join(parts[:depth])
        with parent_of(tree, place, make=False) as found:
            if found is not None and not tree.dry:
                status = os.stat(found[1], dir_fd=found[0], follow_symlinks=False)
                if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
                    shown = f"{stat.S_IMODE(status.st_mode):04o} of uid {status.st_uid}"
                    raise Refusal("login_refused", f"login will be refused: {place} is {shown}")
