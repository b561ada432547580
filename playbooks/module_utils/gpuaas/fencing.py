"""Fencing: who has a volume, written in the volume itself: every host that reaches it knows.

A planner may be wrong, or ask with a state that is older than the world: two writers are refused
here once more, by what stands beside the data.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from typing import Any, Iterator, NamedTuple, Sequence

from .files import put_file, read_bytes
from .paths import Refusal, Tree, parent_of

HOLDERS, LOCK = "holders.json", "lock"
PATIENCE_SECONDS, REST_SECONDS = 10.0, 0.05
EXCLUSIVE, ONE_WRITER = "single_writer", "multi_reader"


class Holder(NamedTuple):
    """An allocation that has a volume, where and how; `access` is how it may be shared with it."""

    allocation: str
    login: str
    machine: str
    mode: str
    mount_path: str
    access: str

    def bars(self, other: Holder) -> bool:
        """Whether nobody may have it both ways at one time."""
        modes = {self.access, other.access}
        both_write = self.mode == other.mode == "rw"
        return EXCLUSIVE in modes or (ONE_WRITER in modes and both_write)


def hold(tree: Tree, folder: str, mine: Holder, fenced: Sequence[str]) -> None:
    """From now on `mine` has it. Raises Refusal where somebody else bars that.

    Holders in `fenced` are cut off, by the word of an operator, and count no more.
    """
    with _alone(tree, folder):
        known = [one for one in holders(tree, folder) if one.allocation not in fenced]
        others = [one for one in known if one.allocation != mine.allocation]
        for other in others:
            if other.bars(mine):
                raise Refusal(
                    "volume_fenced",
                    f"{folder}: {other.allocation} has it {other.mode} on machine {other.machine}",
                )
        _write(tree, folder, [*others, mine])


def let_go(tree: Tree, folder: str, allocation: str) -> None:
    with _alone(tree, folder):
        known = holders(tree, folder)
        left = [one for one in known if one.allocation != allocation]
        if left != known:
            _write(tree, folder, left)


def holders(tree: Tree, folder: str) -> list[Holder]:
    """Raises Refusal where it cannot be read: who has it is unknown then, not nobody."""
    said = read_bytes(tree, f"{folder}/{HOLDERS}")
    if said is None:
        return []
    try:
        return [_holder(one) for one in json.loads(said)["holders"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal("volume_fenced", f"{folder}/{HOLDERS} cannot be read: who has it?") from error


def _holder(told: dict[str, Any]) -> Holder:
    return Holder(**{key: str(told[key]) for key in Holder._fields})


def _write(tree: Tree, folder: str, known: list[Holder]) -> None:
    told = {"holders": [one._asdict() for one in sorted(known)]}
    put_file(tree, f"{folder}/{HOLDERS}", json.dumps(told, indent=1) + "\n", "0600")


@contextmanager
def _alone(tree: Tree, folder: str) -> Iterator[None]:
    """No other host changes the record meanwhile: flock(2) holds on local and on NFS folders."""
    with parent_of(tree, f"{folder}/", make=False) as place:
        if place is None:
            raise Refusal("volume_missing", f"{folder} is not there")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(LOCK, flags, 0o600, dir_fd=place[0])
        try:
            until = time.monotonic() + PATIENCE_SECONDS
            while not _is_ours(lock):
                if time.monotonic() > until:
                    raise Refusal("volume_fenced", f"{folder}: another host is at work on it")
                time.sleep(REST_SECONDS)
            yield
        finally:
            os.close(lock)


def _is_ours(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
