"""A person's own ssh configuration: lines above our blocks override them.

For each option ssh takes the first value that is said. So nothing of ours holds below a `Host *`
that says something of it, least of all whose host key is believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from reconciler.model.records import dataclass

OURS = frozenset(
    {
        "hostname",
        "port",
        "user",
        "hostkeyalias",
        "stricthostkeychecking",
        "updatehostkeys",
        "userknownhostsfile",
        "globalknownhostsfile",
        "knownhostscommand",
        "proxyjump",
        "proxycommand",
        "checkhostip",
    }
)
"""Options by which a host is reached and recognised."""

_LINE = re.compile(r"\s*(?P<word>[A-Za-z]+)(?:\s*=\s*|\s+)(?P<rest>.*?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """An option that is said above, at `line`, under `where`, the text of that condition."""

    line: int
    option: str
    where: str


def earlier(text: str, hosts: Iterable[str]) -> tuple[Earlier, ...]:
    """What is said in `text`, for any of these hosts, above their own blocks or to its end.

    Each option is told once for each condition; what a Match may be true of counts as well.
    """
    found: dict[tuple[str, str], Earlier] = {}
    lines = list(_lines(text))
    for host in hosts:
        for one in _above(lines, host):
            found.setdefault((one.option.lower(), one.where), one)
    return tuple(sorted(found.values(), key=lambda one: one.line))


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """(number, option, value) of each line that says something."""
    for number, line in enumerate(text.splitlines(), 1):
        told = _LINE.fullmatch(line)
        if told is not None:
            yield number, told["word"], told["rest"]


def _above(lines: Sequence[tuple[int, str, str]], host: str) -> Iterator[Earlier]:
    holds, where = True, "no condition"
    for number, word, rest in lines:
        patterns = rest.replace('"', " ").split()
        if word.lower() == "host":
            if host in patterns:
                return
            holds, where = _matches(host, patterns), f"Host {rest}"
        elif word.lower() == "match":
            holds, where = True, f"Match {rest}"
        elif holds and word.lower() in OURS:
            yield Earlier(line=number, option=word, where=where)


def _matches(host: str, patterns: Sequence[str]) -> bool:
    """Match as ssh reads a pattern list: a negated pattern that matches rules the host out."""
    if any(p.startswith("!") and fnmatchcase(host, p[1:]) for p in patterns):
        return False
    return any(fnmatchcase(host, p) for p in patterns)
