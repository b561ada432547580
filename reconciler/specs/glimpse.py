"""Glimpse: whom a text suspends that holds a document with errors, by its lines.

Whoever writes `state: suspended` means it, whatever else is wrong in the same file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.model.ref import Ref, is_name

BETWEEN = re.compile(r"^---(?:\s.*)?$", re.MULTILINE)
KIND = re.compile(r"""(?:^|[{,])\s*["']?kind["']?\s*:\s*["']?User\b""", re.MULTILINE)
NAME = re.compile(r"""(?:^|[{,])\s*["']?name["']?\s*:\s*["']?([^\s"',}#]+)""", re.MULTILINE)
SUSPENDED = re.compile(
    r"""(?:^|[{,])[^\S\n]*["']?state["']?\s*:\s*["']?suspended\b""", re.MULTILINE
)
LIMIT = 1 << 20
"""Longer texts are not looked through; nor are they read as specs."""


def suspended_in(content: bytes) -> Iterator[Ref]:
    """The users whom one of its documents calls suspended."""
    for text in BETWEEN.split(content[:LIMIT].decode("utf-8", "replace")):
        name = NAME.search(text)
        if name and is_name(name[1]) and KIND.search(text) and SUSPENDED.search(text):
            yield Ref("user", "", name[1])
