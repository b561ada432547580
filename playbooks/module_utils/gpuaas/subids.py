"""Sub-ids: numbers for a tenant's containers, in /etc/subuid and subgid, which others write too.

Which are a tenant's follows from its uid (`paths.inside`), so none is ever somebody else's.
"""

from __future__ import annotations

import os
from typing import Iterable, Iterator, NamedTuple

from .files import put_bytes, read_bytes
from .passwd import User
from .paths import SUBIDS, UIDS, Refusal, Tree, inside

LISTS = {"uid": "subuid", "gid": "subgid"}


class Range(NamedTuple):
    """One line: whose, the first number, and how many."""

    login: str
    first: int
    size: int


def check(uid: int, subids: int) -> None:
    """Raises Refusal where these are not the numbers of this uid, or none."""
    if subids not in (0, inside(uid)[0]):
        raise Refusal("item_invalid", f"subordinate ids from {subids} are none of uid {uid}")


def check_free(tree: Tree, login: str, uid: int) -> None:
    """Raises Refusal where somebody else was given some of them."""
    first, last = inside(uid)
    for name in LISTS.values():
        for one in _ranges(read_bytes(tree, f"/etc/{name}") or b""):
            if one.login != login and one.first <= last and first < one.first + one.size:
                raise Refusal(
                    "account_conflict",
                    f"/etc/{name} gives some of {first}-{last} to {one.login};"
                    " nothing of it is touched",
                )


def put(tree: Tree, login: str, subids: int) -> None:
    """These and no others of this login; everything else stays as it is to the byte."""
    ours = [f"{login}:{subids}:{SUBIDS}\n".encode()] if subids else []
    for name in LISTS.values():
        path = f"/etc/{name}"
        data = read_bytes(tree, path) or b""
        lines = data.splitlines(keepends=True)
        mine = [line for line in lines if line.startswith(login.encode() + b":")]
        if mine != ours:
            kept = b"".join(line for line in lines if line not in mine)
            start = kept + b"\n" if ours and kept[-1:] not in (b"", b"\n") else kept
            put_bytes(tree, path, start + b"".join(ours))


def given(root: str) -> dict[str, str]:
    """Login → `uid=1310720000+65536 gid=…`, of everybody in either list."""
    found: dict[str, dict[str, list[str]]] = {}
    for word, name in LISTS.items():
        try:
            with open(os.path.join(root, "etc", name), "rb") as file:
                ranges = list(_ranges(file.read()))
        except FileNotFoundError:
            continue
        for one in ranges:
            found.setdefault(one.login, {}).setdefault(word, []).append(f"{one.first}+{one.size}")
    return {
        login: " ".join(f"{word}={','.join(told.get(word, ['none']))}" for word in LISTS)
        for login, told in found.items()
    }


def holders_of_ranges(root: str, tenants: Iterable[User]) -> Iterator[int]:
    """Numbers of tenants whose insides somebody else was given, wholly or in part."""
    ours = {user.login for user in tenants}
    for name in LISTS.values():
        try:
            with open(os.path.join(root, "etc", name), "rb") as file:
                ranges = list(_ranges(file.read()))
        except FileNotFoundError:
            continue
        for one in ranges:
            first, last = one.first // SUBIDS, (one.first + max(one.size, 1) - 1) // SUBIDS
            if one.login not in ours:
                yield from range(max(first, UIDS[0]), min(last, UIDS[-1]) + 1)


def _ranges(data: bytes) -> Iterator[Range]:
    for line in data.decode("utf-8", "replace").splitlines():
        login, _, numbers = line.partition(":")
        first, _, count = numbers.partition(":")
        if first.isdigit() and count.isdigit():
            yield Range(login, int(first), int(count))
