"""CPU sets as Linux writes them, `0-13,112-125`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby


@lru_cache(maxsize=65536)
def parse_cpus(text: str) -> frozenset[int]:
    """The CPUs named in `text`; none if it is empty. Raises ValueError for anything else."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        low, high = _number(first), _number(last if dash else first)
        if high < low:
            raise ValueError(f"{part} runs backwards")
        found.update(range(low, high + 1))
    return frozenset(found)


def count_cpus(text: str) -> int:
    """How many CPUs `text` names; 0 if it is no CPU set."""
    try:
        return len(parse_cpus(text))
    except ValueError:
        return 0


def format_cpus(cpus: Iterable[int]) -> str:
    """The one shortest spelling of a set: ascending, with neighbours joined."""
    runs = groupby(enumerate(sorted(set(cpus))), key=lambda pair: pair[1] - pair[0])
    spans = [[cpu for _, cpu in run] for _, run in runs]
    return ",".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ValueError(f"{text!r} is no CPU number")
    return int(text)
