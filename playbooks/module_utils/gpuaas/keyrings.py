"""Keyrings: what the kernel keeps for a uid after its last process, and may show to others.

Root sees only what its owner has opened to all, and so is told no more than how many there are.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from contextlib import suppress
from typing import Iterator

from .paths import Tree, holder
from .patience import comes_true
from .probes import ProbeError

NUMBER = {"x86_64": 250, "aarch64": 219}
JOIN, CLEAR, LINK, INVALIDATE, PERSISTENT = 1, 7, 8, 21, 22
SESSION, OF_USER, OF_SESSIONS = -3, -4, -5

PATIENCE_SECONDS, REST_SECONDS = 3.0, 0.05
MAX_OWNERS = 200


def kept_keys(root: str) -> Iterator[tuple[int, int]]:
    """Each uid that has any, with their number; a kernel without keyrings keeps none.

    Raises ProbeError where it has some and does not tell.
    """
    try:
        with open(os.path.join(root, "proc/key-users"), encoding="ascii") as file:
            lines = [line.split() for line in file]
    except FileNotFoundError:
        if root == "/" and _ask(CLEAR, 0) != -errno.ENOSYS:
            raise ProbeError("the kernel does not tell whose keys it keeps") from None
        return
    for uid, _, numbers, *_ in lines:
        number = int(numbers.partition("/")[0])
        if number:
            yield int(uid.rstrip(":")), number


def remove_all(tree: Tree, uid: int) -> None:
    """Of it and of what is inside of its containers. What does not go is told by the proof."""
    owners = _owners(uid)
    tree.changed = tree.changed or bool(owners)
    if not owners or tree.dry:
        return
    for owner in owners:
        child = os.fork()
        if child == 0:
            try:
                _remove_as(owner)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    # The kernel frees them a moment after nobody has them any more.
    comes_true(lambda: not _owners(uid), PATIENCE_SECONDS, REST_SECONDS)


def _owners(uid: int) -> list[int]:
    with suppress(ProbeError):
        return [owner for owner, _ in kept_keys("/") if holder(owner) == uid][:MAX_OWNERS]
    return []


def _remove_as(uid: int) -> None:
    """From within: only its owner, or whoever has it in their session, may do away with a key.

    The session is root's, since the owner may have used up what they may have.
    """
    _ask(JOIN, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _ask(PERSISTENT, -1, SESSION)
    for keyring in (OF_USER, OF_SESSIONS):
        _ask(LINK, keyring, SESSION)
        # Whatever is in there, and is named so that no table tells of it.
        _ask(CLEAR, keyring)
    keys = list(_listed(uid))
    for what in (CLEAR, INVALIDATE):
        for key in keys:
            _ask(what, key)


def _listed(uid: int) -> Iterator[int]:
    """Those of the table that are its own. A name may have line breaks in it, and is no line."""
    with open("/proc/keys", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split()
            if len(fields) > 5 and fields[5] == str(uid):
                with suppress(ValueError):
                    yield int(fields[0], 16)


def _ask(*words: int) -> int:
    """What keyctl answers, a failure as its negative number."""
    number = NUMBER.get(platform.machine())
    if number is None:
        return -errno.EOPNOTSUPP
    libc = ctypes.CDLL(None, use_errno=True)
    answer = libc.syscall(number, *(ctypes.c_long(word) for word in words))
    return -ctypes.get_errno() if answer < 0 else int(answer)
