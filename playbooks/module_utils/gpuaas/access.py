"""access.sync: the key file of a login holds exactly the keys asked for, or is gone.

What is taken away comes first and needs no room: other keys are struck out where they stand, and
sessions that were opened with one of them end. Then the whole file is written at once, never key
by key. A person's own files are not ours.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from typing import Any, Collection, Optional

from .files import fact_of, put_file, read_by, read_bytes, remove_file, write_over
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
    """Each of the three is tried whatever became of the others, and the first failure is told."""
    places = Places(item["id"], item["login"], item["uid"])
    keys: frozenset[str] = frozenset()
    for path in (*(file["path"] for file in item["files"]), *item["absent"]):
        owned(path, places.keys)
    for file in item["files"]:
        keys |= keys_of(file["content"])
    failures = []
    for part in (take_keys, end_sessions, put_keys):
        try:
            part(tree, item, keys)
        except (Refusal, OSError) as error:
            failures.append(error)
    if failures:
        raise failures[0]


def take_keys(tree: Tree, item: dict[str, Any], keys: frozenset[str]) -> None:
    for path in item["absent"]:
        remove_file(tree, path)
    for file in item["files"]:
        strike_out(tree, file["path"], file["content"])


def end_sessions(tree: Tree, item: dict[str, Any], keys: frozenset[str]) -> None:
    if item["uid"] and tree.whole_host:
        end_others(tree, item["login"], item["uid"], keys)


def put_keys(tree: Tree, item: dict[str, Any], keys: frozenset[str]) -> None:
    for file in item["files"]:
        opens = keys and item["uid"] and tree.whole_host and fact_of(tree, file["path"]) is None
        if opens and not tree.dry:
            try_door(tree, item["login"], file["path"])
        owner = read_by(item["gid"])
        put_file(tree, file["path"], file["content"], file["mode"], owner)
        check_way(tree, file["path"])


def strike_out(tree: Tree, path: str, content: str) -> None:
    """From now on no key opens it but those of this content, with the same options.

    Any other's line becomes a remark, as long as it was. Where that cannot be written nobody gets
    in by this file, until it is written anew.
    """
    with parent_of(tree, path, make=False) as place:
        if place is None or tree.dry:
            return
        fact = fact_of(tree, path) or ""
        if fact.startswith("link "):
            remove_file(tree, path)
        before = read_bytes(tree, path) if fact.startswith("file ") else None
        if before is None:
            return
        opens = {opening_of(line) for line in content.split("\n")}
        after = b"\n".join(_struck(line, opens) for line in before.split(b"\n"))
        if after != before:
            tree.changed = True
            try:
                write_over(place, after)
            except OSError:
                remove_file(tree, path)


def _struck(line: bytes, opens: Collection[str]) -> bytes:
    text = line.decode("utf-8", "replace")
    remains = not text or text.startswith("#") or opening_of(text) in opens
    return line if remains else b"#" * len(line)


def opening_of(line: str) -> str:
    """What of a line decides whom it lets in and how: all but the name at its end."""
    match = KEY_LINE.fullmatch(line)
    return line[: match.end("blob")] if match else line


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
