"""Leftovers: what a host found anywhere of a uid whose allocation has gone, an entry a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from reconciler.model.host.facts.named_fact import UNKNOWN
from reconciler.model.records import dataclass

PROBE = "leftovers"
"""The probe that looks for them."""

APART = "apart"
"""Before the word of what it could not look through and is a living neighbour's own."""


class LeftoverWord(StrEnum):
    PROCESS = "process"
    SESSION = "session"
    SOCKET = "socket"
    CRONTAB = "crontab"
    AT = "at"
    SHM = "shm"
    MSG = "msg"
    SEM = "sem"
    MQUEUE = "mqueue"
    MOUNT = "mount"
    FILE = "file"
    OPEN = "open"
    KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """`mark` is UNKNOWN or APART where the host could not look; `text` is the whole entry."""

    word: LeftoverWord
    text: str
    mark: str = ""


def read_leftovers(entries: Iterable[str]) -> Iterator[Leftover]:
    """`and 3 more` belongs to the sort before it; an entry with no known word is a file."""
    word, mark = LeftoverWord.FILE, ""
    for text in entries:
        first, second = [*text.split(" ", 2), ""][:2]
        if first != "and":
            mark = first if first in (UNKNOWN, APART) else ""
            named = second if mark else first
            word = LeftoverWord(named) if named in _WORDS else LeftoverWord.FILE
        yield Leftover(word=word, text=text, mark=mark)


_WORDS = frozenset(word.value for word in LeftoverWord)
