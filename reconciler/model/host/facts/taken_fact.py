"""Taken facts: the numbers of uids or gids that are in use on a host by others."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.model.host.facts.named_fact import fact_key

_TEXT = re.compile(r"\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*", re.ASCII)


def taken_key(kind: str) -> str:
    """`kind` is `uid` or `gid`."""
    return fact_key("taken", kind)


def read_taken(text: str) -> Iterator[tuple[int, int]]:
    """The first and the last number of each range; none of what nobody can read."""
    for part in text.split(",") if _TEXT.fullmatch(text) else ():
        first, _, last = part.partition("-")
        yield int(first), int(last or first)
