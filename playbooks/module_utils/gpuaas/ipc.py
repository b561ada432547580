"""Objects of a uid that outlive its processes: System V IPC, POSIX queues and shared memory."""

from __future__ import annotations

import os
from typing import Iterator

from .files import names_of
from .paths import Refusal, Tree, holder
from .probes import ProbeError
from .programs import change

SYSTEM_V = (("shm", "shmid", "-m"), ("msg", "msqid", "-q"), ("sem", "semid", "-s"))
POSIX = ("dev/mqueue", "dev/shm")


def system_v(root: str, uid: int) -> Iterator[tuple[str, str, str]]:
    """(kind, id, ipcrm's word) of those it owns or has made."""
    for kind, id, word, owners in all_system_v(root):
        if uid in map(holder, owners):
            yield kind, id, word


def all_system_v(root: str) -> Iterator[tuple[str, str, str, tuple[int, ...]]]:
    """Each with who owns and who has made it.

    Raises OSError or ProbeError where the kernel does not tell.
    """
    for kind, key, word in SYSTEM_V:
        with open(os.path.join(root, "proc/sysvipc", kind)) as file:
            head, *rows = [line.split() for line in file]
        if not {key, "uid", "cuid"} <= set(head):
            raise ProbeError(f"/proc/sysvipc/{kind} has no columns of owners")
        for row in rows:
            told = {name: row[at] for at, name in enumerate(head)}
            yield kind, told[key], word, (int(told["uid"]), int(told["cuid"]))


def remove_all(tree: Tree, uid: int) -> None:
    try:
        for _, id, word in list(system_v("/", uid)):
            change(tree, "ipcrm", word, id)
    except ProbeError as error:
        raise Refusal("verb_failed", str(error)) from error
    for place in POSIX:
        for name in names_of(tree, f"/{place}", uid):
            tree.changed = True
            if not tree.dry:
                os.unlink(f"/{place}/{name}")
