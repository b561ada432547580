"""Who may use cron and at: lists that others write too, of which one line is ours.

Everything else in them stays as it is to the byte.
"""

from __future__ import annotations

import os
from typing import Optional

from .files import put_bytes, read_bytes
from .paths import Tree

LISTS = ("cron", "at")


def deny(tree: Tree, login: str) -> None:
    for word in LISTS:
        data = read_bytes(tree, f"/etc/{word}.deny")
        if data is None and word == "at":
            # Without any list at serves root alone; an empty one would open it to everybody.
            continue
        lines = (data or b"").split(b"\n")
        if login.encode() not in lines:
            start = (data or b"") + (b"\n" if lines[-1] else b"")
            put_bytes(tree, f"/etc/{word}.deny", start + login.encode() + b"\n")


def forget(tree: Tree, login: str) -> None:
    for word in LISTS:
        data = read_bytes(tree, f"/etc/{word}.deny")
        if data is not None and login.encode() in data.split(b"\n"):
            kept = [line for line in data.split(b"\n") if line != login.encode()]
            put_bytes(tree, f"/etc/{word}.deny", b"\n".join(kept))


def is_denied(root: str, word: str, login: str) -> bool:
    """As the programs themselves decide; without any list cron of Debian serves everybody."""
    allowed, denied = (_lines(root, f"{word}.{kind}") for kind in ("allow", "deny"))
    if allowed is not None:
        return login not in allowed
    return login in denied if denied is not None else word == "at"


def listed(root: str) -> set[str]:
    """Everybody in a list of those denied."""
    return {line for word in LISTS for line in _lines(root, f"{word}.deny") or () if line}


def _lines(root: str, name: str) -> Optional[list[str]]:
    try:
        with open(os.path.join(root, "etc", name), encoding="utf-8", errors="replace") as file:
            return file.read().split("\n")
    except FileNotFoundError:
        return None
