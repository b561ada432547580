"""Volume fences: who has a volume, written beside its data, where every host can look.

A planner may be wrong, or ask with a state that is older than the world: two writers are refused
here once more, by what stands there. Each holder is a file of its own, named by the allocation and
the machine that it has it on, without which a host does not mount the volume when it starts.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from typing import Any, Iterator, NamedTuple, Sequence

from .files import fact_of, put_file, put_folder, read_bytes, remove_file
from .host_lock import is_ours
from .paths import ALLOCATION_ID, Refusal, Tree, parent_of
from .patience import comes_true

HOLDERS, LOCK = "holders", "lock"
MACHINE = re.compile(r"[0-9a-zA-Z-]{1,64}")
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

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.allocation}.{self.machine}"

    def bars(self, other: Holder) -> bool:
        """Whether nobody may have it both ways at one time."""
        modes = {self.access, other.access}
        both_write = self.mode == other.mode == "rw"
        return EXCLUSIVE in modes or (ONE_WRITER in modes and both_write)


class Fence(NamedTuple):
    """The holders of the volume in `folder`, for one machine to look at and to change.

    Where machines share the folder, one allocation on two of them is two holders; what lies on
    this machine's own disk is had by it alone, whatever its number was before.
    """

    folder: str
    machine: str
    shared: bool

    def hold(self, tree: Tree, mine: Holder, fenced: Sequence[str]) -> None:
        """From now on `mine` has it. Raises Refusal where somebody else bars that.

        Allocations in `fenced` are cut off, by the word of an operator, and count no more.
        """
        if mine.allocation in fenced:
            raise Refusal("volume_fenced", f"{self.folder}: {mine.allocation} is cut off from it")
        with alone(tree, self.folder):
            for other in holders(tree, self.folder):
                over = other.allocation in fenced or self._has_left(tree, other)
                if over or self._is(other, mine.allocation):
                    if other.name != mine.name:
                        remove_file(tree, self._path(other.name))
                elif other.bars(mine):
                    raise Refusal(
                        "volume_fenced",
                        f"{self.folder}: {other.allocation} has it {other.mode}"
                        f" on machine {other.machine}",
                    )
            told = json.dumps(mine._asdict(), indent=1) + "\n"
            put_folder(tree, f"{self.folder}/{HOLDERS}", "0700")
            put_file(tree, self._path(mine.name), told, "0600")

    def living(self, tree: Tree) -> list[Holder]:
        return [one for one in holders(tree, self.folder) if not self._has_left(tree, one)]

    def let_go(self, tree: Tree, allocation: str) -> None:
        with alone(tree, self.folder):
            for name in names(tree, self.folder):
                of, _, machine = name.partition(".")
                if of == allocation and (machine == self.machine or not self.shared):
                    remove_file(tree, self._path(name))

    def _is(self, other: Holder, allocation: str) -> bool:
        return other.allocation == allocation and (other.machine == self.machine or not self.shared)

    def _has_left(self, tree: Tree, other: Holder) -> bool:
        """Whether it had it here, and is here no more: its disk was away when it let go of it.

        Of another machine nobody here knows, even where the place was said to be no shared one.
        """
        traces = (f"/etc/gpuaas/allocations/{other.allocation}.json", f"/gpuaas/{other.allocation}")
        is_ours = other.machine == self.machine
        return is_ours and all(fact_of(tree, path) is None for path in traces)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{HOLDERS}/{name}"


def holders(tree: Tree, folder: str) -> list[Holder]:
    """Raises Refusal where one cannot be read: who has it is unknown then, not nobody."""
    return [_read(tree, folder, name) for name in names(tree, folder)]


def names(tree: Tree, folder: str) -> list[str]:
    """Of the files of holders; the rest of a killed write is none."""
    with parent_of(tree, f"{folder}/{HOLDERS}/", make=False) as place:
        found = sorted(os.listdir(place[0])) if place else []
    return [name for name in found if not name.startswith(".")]


def machine_of(tree: Tree) -> str:
    """The number by which this host is known to others, and to its own systemd."""
    with open(os.open("etc/machine-id", os.O_RDONLY, dir_fd=tree.root), encoding="ascii") as file:
        machine = file.read(100).strip()
    if not MACHINE.fullmatch(machine):
        raise Refusal("verb_failed", f"no machine id: {machine!r}")
    return machine


def _read(tree: Tree, folder: str, name: str) -> Holder:
    allocation, _, machine = name.partition(".")
    try:
        told: Any = json.loads(read_bytes(tree, f"{folder}/{HOLDERS}/{name}") or b"")
        one = Holder(**{key: str(told[key]) for key in Holder._fields})
    except (ValueError, KeyError, TypeError):
        one = None
    if one is None or one.name != name or not ALLOCATION_ID.fullmatch(allocation) or not machine:
        raise Refusal("volume_fenced", f"{folder}/{HOLDERS}/{name} cannot be read: who has it?")
    return one


@contextmanager
def alone(tree: Tree, folder: str) -> Iterator[None]:
    """No other host changes the holders meanwhile: flock(2) holds on local and on NFS folders."""
    with parent_of(tree, f"{folder}/", make=False) as place:
        if tree.dry:
            yield
            return
        if place is None:
            raise Refusal("volume_missing", f"{folder} is not there")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(LOCK, flags, 0o600, dir_fd=place[0])
        try:
            if not comes_true(lambda: is_ours(lock), PATIENCE_SECONDS, REST_SECONDS):
                raise Refusal("volume_fenced", f"{folder}: another host is at work on it")
            if not os.fstat(lock).st_nlink:
                raise Refusal("volume_missing", f"{folder} was wiped just now")
            yield
        finally:
            os.close(lock)
