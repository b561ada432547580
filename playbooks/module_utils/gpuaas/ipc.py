"""IPC objects that outlive the processes of a uid: System V IPC, POSIX queues, shared memory."""

from __future__ import annotations

import os
from typing import Iterator

from .files import names_of
from .paths import UIDS, Refusal, Tree, holder
from .probes import ProbeError, unless_gone
from .programs import tried

SYSTEM_V = (("shm", "shmid", "-m"), ("msg", "msqid", "-q"), ("sem", "semid", "-s"))
POSIX = ("dev/mqueue", "dev/shm")
AT_ONCE = 500


def system_v(root: str, uid: int) -> Iterator[tuple[str, str, str]]:
    """(kind, id, ipcrm's word) of those that are its own.

    What a tenant has made is their own, whoever they give it to: anybody may be given one unasked.
    """
    for kind, id, word, (owner, maker) in all_system_v(root):
        made = holder(maker)
        if made == uid or (made not in UIDS and holder(owner) == uid):
            yield kind, id, word


def all_system_v(root: str) -> Iterator[tuple[str, str, str, tuple[int, int]]]:
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
    """Raises Refusal where one of those that are there does not go; new ones are the proof's."""
    before = _objects(uid)
    tree.changed = tree.changed or bool(before)
    if before and not tree.dry:
        why = _remove(before)
        # One that went by itself meanwhile is an error to the tool, and none to us.
        if set(before) & set(_objects(uid)):
            raise Refusal("verb_failed", why or "ipcrm has removed nothing")
    for place in POSIX:
        for name in names_of(tree, f"/{place}", uid):
            tree.changed = True
            if not tree.dry:
                with unless_gone():
                    os.unlink(f"/{place}/{name}")


def _objects(uid: int) -> list[tuple[str, str]]:
    """ipcrm's word and the id of each."""
    try:
        return [(word, id) for _, id, word in system_v("/", uid)]
    except ProbeError as error:
        raise Refusal("verb_failed", str(error)) from error


def _remove(objects: list[tuple[str, str]]) -> str:
    """Many at once: somebody may have tens of thousands. What the tool says of the last failure."""
    said = ""
    for at in range(0, len(objects), AT_ONCE):
        words = [word for one in objects[at : at + AT_ONCE] for word in one]
        said = tried("ipcrm", *words) or said
    return said
