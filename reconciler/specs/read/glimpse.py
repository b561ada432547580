"""Glimpse: whom an invalid document suspends, found by its lines.

Whoever writes `state: suspended` means it, whatever else is wrong in the same file. Only what
stands where it would in a sound document counts: a name below `metadata`, a state below `spec`. The
cost grows with the text, as whoever writes it may be somebody hostile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reconciler.model.ref import Ref, is_name

BETWEEN = re.compile(r"---(?=\s|$)|\.\.\.(?=\s|$)")
COMMENT = re.compile(r"(^|\s)#.*")
TOP = re.compile(r"""["']?([A-Za-z]+)["']?\s*:(?:\s+|$)(.*)""")
INNER = re.compile(r"""(\s+)["']?([A-Za-z]+)["']?\s*:\s+["']?([^\s"',}]+)""")
FLOW = re.compile(r"""["']?\b(metadata|spec)["']?\s*:\s*\{""")
NESTED, NESTS = re.compile(r"\{[^{}]*\}"), 4
ENTRY = re.compile(r"""(?:^|,)\s*["']?(name|state)["']?\s*:\s*["']?([^\s"',}]+)""")
USER = re.compile(r"""["']?\bkind["']?\s*:\s*["']?User\b""")
LONGEST_LINE = 4096
"""Longer ones are looked through as far as that."""

WANTED = {"metadata": "name", "spec": "state"}
SUSPENDED = "suspended"


def suspended_in(content: bytes) -> Iterator[Ref]:
    """The users whom one of its documents calls suspended."""
    text = content.decode("utf-8", "replace").removeprefix("\ufeff")
    lines: list[str] = []
    for line in text.splitlines():
        line = COMMENT.sub("", line[:LONGEST_LINE])
        if mark := BETWEEN.match(line):
            yield from _of_document(lines)
            lines = [line[mark.end() :].lstrip()]
        else:
            lines.append(line)
    yield from _of_document(lines)


def _of_document(lines: Sequence[str]) -> Iterator[Ref]:
    """Of two values of one field either may be meant, so either counts."""
    is_user = False
    names: list[str] = []
    states: list[str] = []
    section, depth = "", 0
    for line in lines:
        if top := TOP.match(line):
            section, depth = top[1], 0
            is_user = is_user or (section == "kind" and top[2].strip(" \"'") == "User")
        elif section in WANTED and line[:1].isspace() and line.strip():
            depth = depth or len(line) - len(line.lstrip())
            inner = INNER.match(line)
            if inner and len(inner[1]) <= depth and inner[2] == WANTED[section]:
                (names if section == "metadata" else states).append(inner[3])
        if "{" in line:
            is_user = is_user or (line.lstrip().startswith("{") and bool(USER.search(line)))
            for where in FLOW.finditer(line):
                inside = _flat(line[where.end() :])
                found = [value for key, value in ENTRY.findall(inside) if key == WANTED[where[1]]]
                (names if where[1] == "metadata" else states).extend(found)
    if is_user and SUSPENDED in states and names and is_name(names[0]):
        yield Ref("user", "", names[0])


def _flat(text: str) -> str:
    """What stands in a mapping that has begun, without mappings of its own, up to its end."""
    for _ in range(NESTS):
        text = NESTED.sub("", text)
    return text.partition("}")[0]
