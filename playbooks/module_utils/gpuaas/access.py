"""access.sync: the key file of a login holds exactly the keys asked for, or is gone.

The whole file is written at once, never key by key; a person's own files are not ours.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from .files import put_file, remove_file
from .items import FILE
from .paths import Places, Refusal, Tree, owned

KEYS = {"id": str, "login": str, "files": [FILE], "absent": [str]}

KEY_LINE = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-ssh-ed25519@openssh\.com|"
    r"sk-ecdsa-sha2-nistp256@openssh\.com) ([A-Za-z0-9+/]+={0,2})(?: [\w.@/+-]+)?",
    re.ASCII,
)


def run(tree: Tree, item: dict[str, Any]) -> None:
    places = Places(item["id"], item["login"])
    for file in item["files"]:
        check_keys(file["content"])
        put_file(tree, owned(file["path"], places.keys), file["content"], file["mode"])
    for path in item["absent"]:
        remove_file(tree, owned(path, places.keys))


def check_keys(content: str) -> None:
    """Lines are comments or one plain key each, without options, and the last one is ended."""
    if content and not content.endswith("\n"):
        raise Refusal("item_invalid", "the last line of the keys has no end")
    for number, line in enumerate(content.split("\n"), start=1):
        if line and not is_plain(line):
            raise Refusal("item_invalid", f"line {number} of the keys is no plain public key")


def is_plain(line: str) -> bool:
    if line.startswith("#"):
        return line.isprintable()
    match = KEY_LINE.fullmatch(line)
    if match is None:
        return False
    name, blob = match.group(1).encode("ascii"), match.group(2)
    try:
        return base64.b64decode(blob, validate=True).startswith(len(name).to_bytes(4, "big") + name)
    except binascii.Error:
        return False
