"""Open devices: the device nodes that a process has open or mapped, by their numbers.

A name is chosen by whoever mounts, and a thread may have a table of open files of its own. No file
system is asked about its files: a server, or somebody's program, may never answer.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import socket
import stat
import struct
import time
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Iterator, NamedTuple, Optional

from .probes import BUDGET, Probes

Device = tuple[int, int]

SECONDS, OWNER_SECONDS, PROCESS_SECONDS = 40.0, 5.0, 2.0
"""For the handles of all processes together, of all that are one's, and of one: somebody may have

any number of them, and what they are is not known then, of nobody else's.
"""

IN_FLIGHT = re.compile(r"^scm_fds:\s*(\d+)$", re.MULTILINE)
REGISTERED = re.compile(r"^UserFiles:\s*(\d+)$", re.MULTILINE)
FLAGS = re.compile(r"^flags:\s*([0-7]+)$", re.MULTILINE)
PATH_ONLY = 0o10000000
MAX_ABOUT = 1 << 16

RING, SOCKET = "anon_inode:[io_uring]", "socket:["
NO_DEVICES = (SOCKET, "pipe:[", "anon_inode:")
"""How the kernel calls what has no path; whatever has one is called as somebody likes."""

AT_FDCWD, DONT_SYNC, STATX_TYPE, STATX_INO, STATX_SIZE = -100, 0x4000, 1, 0x100, 256
MODE_AT, INO_AT, RDEV_AT, DEV_AT = 28, 32, 128, 136
KCMP, KCMP_FILES = {"x86_64": 312, "aarch64": 272}, 2


class Unlisted:
    """What a process may have open and no table lists, by what the kernel tells of its handles."""

    def __init__(self) -> None:
        self.waiting, self.registered = 0, 0
        self.rings, self.mapped = set[int](), set[int]()
        self._silent = set[str]()

    def add(self, path: str, target: str) -> None:
        about = _about(path) if target == RING or target.startswith(SOCKET) else None
        if about is None:
            return
        if target == RING:
            self.rings.add(_inode(path))
            told = REGISTERED.search(about)
            self.registered += int(told.group(1)) if told else 0
            self._silent |= set() if told else {"its io_uring is not told of"}
        elif told := IN_FLIGHT.search(about):
            self.waiting += int(told.group(1))
        elif not _sockets_tell():
            self._silent.add("this kernel does not tell what waits in its sockets")

    def told(self) -> list[str]:
        if self.mapped - self.rings:
            self._silent.add("it has an io_uring that no table lists")
        counted = {
            f"{self.waiting} open files wait in its sockets": self.waiting,
            f"{self.registered} files are registered with its io_uring": self.registered,
        }
        return [*(words for words, number in counted.items() if number), *sorted(self._silent)]


class TooMany(Exception):
    """More is open than there is time for."""


class Handles:
    """Of processes, within a budget for each of so many owners. Raises TooMany where it is over."""

    def __init__(self, probes: Probes, owners: int = 1) -> None:
        self._probes = probes
        self._mapped: dict[str, Optional[Device]] = {}
        self._end = time.monotonic() + BUDGET.left(SECONDS)
        self._left: dict[int, float] = {}
        self._share = min(OWNER_SECONDS, BUDGET.left(SECONDS) / owners)
        self._until = self._end

    @contextmanager
    def of_owner(self, owner: int) -> Iterator[None]:
        """What is asked within is at the cost of this owner, and of nobody else."""
        began = time.monotonic()
        left = self._left.setdefault(owner, self._share)
        self._until = min(self._end, began + min(PROCESS_SECONDS, left))
        try:
            yield
        finally:
            self._left[owner] = left - (time.monotonic() - began)

    def look(self, pid: int, *, unlisted: bool = True) -> tuple[set[Device], list[str]]:
        """Devices that it has open or mapped, and where it may keep open files that no table lists.

        What is mapped stays open when it is closed. What waits in a socket nobody has, and somebody
        may take; what is registered with an io_uring is used without being open. Only with
        `unlisted` these are asked for.
        """
        rest, devices = Unlisted(), set[Optional[Device]]()
        for folder in self.tables(pid):
            for path in self.inside(folder):
                target = _target(path)
                if not target.startswith(NO_DEVICES):
                    devices.add(_opened(path))
                elif unlisted:
                    rest.add(path, target)
        for folder in self.mappings(pid):
            files, rings = self._maps(folder)
            for path in self.inside(folder):
                devices.add(self._of_mapping(path, files.get(os.path.basename(path))))
            rest.mapped |= rings if unlisted else set()
        return {one for one in devices if one is not None}, rest.told()

    def _of_mapping(self, path: str, file: Optional[str]) -> Optional[Device]:
        """Asked once for each file: most processes have the same libraries."""
        if file is None:
            return device_of(path)
        if file not in self._mapped:
            self._mapped[file] = device_of(path)
        return self._mapped[file]

    def _maps(self, folder: str) -> tuple[dict[str, str], set[int]]:
        """Name in `map_files` → file system and inode of what is mapped; the inodes of io_urings.

        What a mapped file is called is not kept: its names may be as long as somebody likes.
        """
        found, rings = dict[str, str](), set[int]()
        with suppress(OSError), open(f"{os.path.dirname(folder)}/maps", errors="replace") as file:
            for line in file:
                if time.monotonic() > self._until:
                    raise TooMany
                words = [*line.rstrip("\n").split(maxsplit=5), ""]
                first, _, last = words[0].partition("-")
                found[f"{int(first, 16):x}-{int(last, 16):x}"] = f"{words[3]} {words[4]}"
                if words[5] == RING:
                    rings.add(int(words[4]))
        return found, rings

    def inside(self, folder: str) -> Iterator[str]:
        """One by one: a list of all of them may be larger than all that we may use."""
        with suppress(FileNotFoundError, ProcessLookupError), os.scandir(folder) as entries:
            for entry in entries:
                if time.monotonic() > self._until:
                    raise TooMany
                yield entry.path

    def tables(self, pid: int) -> list[str]:
        """One folder for each table of open files; most processes have one for all threads."""
        seen: list[int] = []
        for tid in (pid, *self.threads(pid)):
            if not (self._probes.root == "/" and any(_share(tid, one) for one in seen[-2:])):
                seen.append(tid)
        return [self._at(pid, tid, "fd") for tid in seen]

    def mappings(self, pid: int) -> Iterator[str]:
        """Those of the first thread may be gone with it, and are there with any other."""
        for tid in (pid, *self.threads(pid)):
            folder = self._probes.at("proc", str(tid), "map_files")
            with suppress(OSError), os.scandir(folder) as entries:
                if next(entries, None) is not None:
                    yield folder
                    return

    def threads(self, pid: int) -> list[int]:
        with suppress(FileNotFoundError, ProcessLookupError):
            tids = os.listdir(self._probes.at("proc", str(pid), "task"))
            return sorted(int(tid) for tid in tids if tid != str(pid))
        return []

    def _at(self, pid: int, tid: int, name: str) -> str:
        thread = () if tid == pid else ("task", str(tid))
        return self._probes.at("proc", str(pid), *thread, name)


def device_of(path: str) -> Optional[Device]:
    """Of what a handle leads to, if that is a device.

    Whatever cannot be told lies with a server or with somebody's program, where no device is.
    """
    about = _about_file(path, STATX_TYPE)
    if about is None:
        return None
    (mode,) = struct.unpack_from("=H", about, MODE_AT)
    major, minor = struct.unpack_from("=II", about, RDEV_AT)
    return (major, minor) if stat.S_ISCHR(mode) else None


def identity_of(path: str) -> Optional[tuple[int, int]]:
    """Device and inode of what a handle leads to, as `os.stat` has them."""
    about = _about_file(path, STATX_INO)
    if about is None:
        return None
    (inode,) = struct.unpack_from("=Q", about, INO_AT)
    major, minor = struct.unpack_from("=II", about, DEV_AT)
    return os.makedev(major, minor), inode


class Stated(NamedTuple):
    """What is known of a handle without asking anybody: also by which mount it is one."""

    mode: int
    device: str
    mount: str


def stated(path: str) -> Optional[Stated]:
    """None where this kernel does not tell by which mount, as any before 5.8 does not."""
    about = _about_file(path, 0)
    if about is None:
        return None
    (mode,) = struct.unpack_from("=H", about, MODE_AT)
    major, minor, mount = struct.unpack_from("=IIQ", about, DEV_AT)
    return Stated(mode, f"{major}:{minor}", str(mount)) if mount else None


def _about_file(path: str, what: int) -> Optional[bytes]:
    """As much as is known of it without asking anybody."""
    buffer = ctypes.create_string_buffer(STATX_SIZE)
    asked = _libc().statx(AT_FDCWD, os.fsencode(path), DONT_SYNC, what, buffer)
    return buffer.raw if asked == 0 else None


def _opened(path: str) -> Optional[Device]:
    """Nothing of a device is used by a handle that is a name and no more."""
    device = device_of(path)
    if device is not None:
        flags = FLAGS.search(_about(path) or "")
        if flags and int(flags.group(1), 8) & PATH_ONLY:
            return None
    return device


def has_waiting(path: str) -> bool:
    """Whether open files wait in a socket, for whoever takes them."""
    told = IN_FLIGHT.search(_about(path) or "")
    return bool(told and int(told.group(1)))


def _target(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""


def _inode(path: str) -> int:
    """Of what no server has: asking cannot hang."""
    with suppress(OSError):
        return os.stat(path).st_ino
    return 0


def _about(path: str) -> Optional[str]:
    """What the kernel tells of a handle; None for one that has just been closed."""
    folder, name = os.path.split(path)
    try:
        with open(f"{folder}info/{name}", errors="replace") as file:
            return file.read(MAX_ABOUT)
    except OSError:
        return None


@lru_cache(maxsize=None)
def _sockets_tell() -> bool:
    """Whether this kernel counts what waits in a socket, as any before 5.5 does not."""
    one, other = socket.socketpair()
    with one, other:
        return bool(IN_FLIGHT.search(_about(f"/proc/self/fd/{one.fileno()}") or ""))


def _share(one: int, other: int) -> bool:
    """Whether two threads have one table of open files; not where nobody can say."""
    number = KCMP.get(platform.machine())
    return number is not None and _libc().syscall(number, one, other, KCMP_FILES, 0, 0) == 0


@lru_cache(maxsize=None)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
