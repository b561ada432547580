"""Path facts: what a host tells of a file, a folder or a link, as one line of text."""

from __future__ import annotations

import re

from reconciler.model.records import dataclass

_OWNER = re.compile(r" (?P<uid>\d+):(?P<gid>\d+)$")
_DIR, _FILE = "dir ", "file "


@dataclass(frozen=True, slots=True, kw_only=True)
class PathOwner:
    uid: int
    gid: int


def file_fact(mode: str, digest: str, gid: int = 0) -> str:
    """`gid` is the group that reads it, where that is a tenant's."""
    return f"{_FILE}{mode} {digest}{f' 0:{gid}' if gid else ''}"


def folder_fact(mode: str, uid: int = 0, gid: int = 0) -> str:
    """Its owner is told where that is not whoever works on the host."""
    return f"{_DIR}{mode}{f' {uid}:{gid}' if uid else ''}"


def link_fact(target: str) -> str:
    return f"link {shown(target)}"


def shown(path: str) -> str:
    """A path or unit as hosts report it: a backslash is doubled."""
    return path.replace("\\", "\\\\")


def is_folder(fact: str) -> bool:
    return fact.startswith(_DIR)


def owner_in(fact: str) -> PathOwner | None:
    """Whose it is; None where it says nobody in particular."""
    found = _OWNER.search(fact)
    return PathOwner(uid=int(found["uid"]), gid=int(found["gid"])) if found else None


def is_same_file_otherwise(fact: str, other: str) -> bool:
    """Whether both tell of a file of one mode, so that only content or owner are not the same."""
    return fact.startswith(_FILE) and fact.split(" ")[:2] == other.split(" ")[:2]
