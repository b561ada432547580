"""Accounts and groups as the host's own files have them, as one line of text each."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

from .paths import UIDS

TENANTS, SHELL = "gpuaas-tenants", "/bin/bash"
OURS = re.compile(r"gpuaas [a-z2-7]{10}")
"""What stands where other accounts have a person's name: the allocation that it was made for."""

GROUP = re.compile(r"p-[a-z0-9-]{1,20}-(\d{1,10})")
"""Of a project; the number is its gid, so that no other group is ever mistaken for one."""


NO_END = 99999
"""Days from which on nobody lives to see a password grow old."""


class User(NamedTuple):
    """One line of passwd. `locked`: no password opens it.

    `ageing` says what will shut it, or has, though nobody took anything away; empty if nothing.
    """

    login: str
    uid: int
    gid: int
    gecos: str
    home: str
    shell: str
    locked: bool
    ageing: tuple[str, ...] = ()


class Group(NamedTuple):
    name: str
    gid: int
    members: tuple[str, ...]


class Accounts:
    """All of a host, read once; lines that are none are passed over, as the host does."""

    def __init__(self, root: str) -> None:
        shadow = {f[0]: f for f in _fields(root, "shadow", 2)}
        self.users = [
            User(
                f[0],
                int(f[2]),
                int(f[3]),
                f[4],
                f[5],
                f[6],
                f[1] == "x" and shadow.get(f[0], [f[0], ""])[1][:1] in ("!", "*"),
                ageing_of(shadow.get(f[0], [])),
            )
            for f in _fields(root, "passwd", 7)
            if is_number(f[2]) and is_number(f[3])
        ]
        self.groups = [
            Group(f[0], int(f[2]), tuple(filter(None, f[3].split(","))))
            for f in _fields(root, "group", 4)
            if is_number(f[2])
        ]

    def user(self, login: str) -> Optional[User]:
        return next((user for user in self.users if user.login == login), None)

    def group(self, gid: int) -> Optional[Group]:
        return next((group for group in self.groups if group.gid == gid), None)

    def groups_of(self, login: str) -> list[str]:
        return sorted(group.name for group in self.groups if login in group.members)

    def tenants(self) -> list[User]:
        """Those made by us, and whoever else is in the group that confines them."""
        confined = {m for group in self.groups if group.name == TENANTS for m in group.members}
        return [
            user
            for user in self.users
            if user.uid in UIDS and (user.login in confined or OURS.fullmatch(user.gecos))
        ]

    def fact(self, user: User) -> str:
        group = self.group(user.gid)
        return (
            f"uid={user.uid} gid={user.gid} group={group.name if group else '?'}"
            f" groups={','.join(self.groups_of(user.login))} home={user.home} shell={user.shell}"
            + " ".join((f" password={'locked' if user.locked else 'open'}", *user.ageing))
        )


def is_number(text: str) -> bool:
    """Signs that only look like digits are none, and no host has numbers of more of them."""
    return text.isascii() and text.isdigit() and len(text) <= 10


def ageing_of(shadow: list[str]) -> tuple[str, ...]:
    """As login programs judge it; a field that is no number is one that they do not go by."""
    changed, most, inactive, expires = (_number(shadow, at) for at in (2, 4, 6, 7))
    words = (
        (changed == 0, "change=demanded"),
        (most is not None and 0 <= most < NO_END, f"max={most}"),
        (inactive is not None and inactive >= 0, f"inactive={inactive}"),
        (expires is not None and expires >= 0, f"expires={expires}"),
    )
    return tuple(word for holds, word in words if holds)


def _number(fields: list[str], at: int) -> Optional[int]:
    try:
        return int(fields[at])
    except (IndexError, ValueError):
        return None


def _fields(root: str, name: str, at_least: int) -> list[list[str]]:
    """Raises OSError: a host without these files is not one that can be understood."""
    with open(os.path.join(root, "etc", name), encoding="utf-8", errors="replace") as file:
        lines = [line.rstrip("\n").split(":") for line in file]
    return [fields for fields in lines if len(fields) >= at_least and fields[0][:1] not in "#+-"]
