"""Handles: the device nodes that a process has open or mapped, by their numbers.

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
from contextlib import suppress
from functools import lru_cache
from typing import Iterator, Optional

from .probes import BUDGET, ProbeError, Probes

Device = tuple[int, int]

SECONDS = 15.0
"""For the handles of all processes together; somebody may have any number of them."""

IN_FLIGHT = re.compile(r"^scm_fds:\s*(\d+)$", re.MULTILINE)
REGISTERED = re.compile(r"^UserFiles:\s*(\d+)$", re.MULTILINE)
FLAGS = re.compile(r"^flags:\s*([0-7]+)$", re.MULTILINE)
PATH_ONLY = 0o10000000
MAX_ABOUT = 1 << 16

RING = "anon_inode:[io_uring]"

AT_FDCWD, DONT_SYNC, STATX_TYPE, STATX_SIZE = -100, 0x4000, 1, 256
MODE_AT, RDEV_AT = 28, 128
KCMP, KCMP_FILES = {"x86_64": 312, "aarch64": 272}, 2


class Handles:
    """Of the processes of a host, within one budget. Raises ProbeError where that is used up."""

    def __init__(self, probes: Probes) -> None:
        self._probes = probes
        self._mapped: dict[str, Optional[Device]] = {}
        self._until = time.monotonic() + BUDGET.left(SECONDS)

    def of(self, pid: int) -> set[Device]:
        """What is mapped stays open when it is closed."""
        found = {_opened(path) for path in self._open(pid)}
        for folder in self._mappings(pid):
            files = {name: file for name, (file, _) in _maps(folder).items()}
            for path in self._inside(pid, folder):
                found.add(self._of_mapping(path, files.get(os.path.basename(path))))
        return {device for device in found if device is not None}

    def _of_mapping(self, path: str, file: Optional[str]) -> Optional[Device]:
        """Asked once for each file: most processes have the same libraries."""
        if file is None:
            return device_of(path)
        if file not in self._mapped:
            self._mapped[file] = device_of(path)
        return self._mapped[file]

    def unseen(self, pid: int) -> list[str]:
        """Where it may keep open files that no table lists, each in words.

        What waits in a socket nobody has, and somebody may take; what is registered with an
        io_uring is used without being open.
        """
        waiting, registered, silent = 0, 0, set[str]()
        rings = set[int]()
        for path in self._open(pid):
            target, about = _target(path), None
            if target == RING or target.startswith("socket:"):
                about = _about(path)
            if about is None:
                continue
            if target == RING:
                rings.add(_inode(path))
                told = REGISTERED.search(about)
                registered += int(told.group(1)) if told else 0
                silent |= set() if told else {"its io_uring is not told of"}
            elif told := IN_FLIGHT.search(about):
                waiting += int(told.group(1))
            elif not _sockets_tell():
                silent.add("this kernel does not tell what waits in its sockets")
        if self._mapped_rings(pid) - rings:
            silent.add("it has an io_uring that no table lists")
        counted = {
            f"{waiting} open files wait in its sockets": waiting,
            f"{registered} files are registered with its io_uring": registered,
        }
        return [*(words for words, number in counted.items() if number), *sorted(silent)]

    def _mapped_rings(self, pid: int) -> set[int]:
        told = [one for folder in self._mappings(pid) for one in _maps(folder).values()]
        return {int(file.split()[1]) for file, name in told if name == RING}

    def _open(self, pid: int) -> Iterator[str]:
        for folder in self._tables(pid):
            yield from self._inside(pid, folder)

    def _inside(self, pid: int, folder: str) -> Iterator[str]:
        with suppress(FileNotFoundError, ProcessLookupError):
            for name in os.listdir(folder):
                if time.monotonic() > self._until:
                    raise ProbeError(f"process {pid}: more is open than can be looked at in time")
                yield os.path.join(folder, name)

    def _tables(self, pid: int) -> list[str]:
        """One folder for each table of open files; most processes have one for all threads."""
        seen: list[int] = []
        for tid in (pid, *self._threads(pid)):
            if not (self._probes.root == "/" and any(_share(tid, one) for one in seen[-2:])):
                seen.append(tid)
        return [self._at(pid, tid, "fd") for tid in seen]

    def _mappings(self, pid: int) -> Iterator[str]:
        """Those of the first thread may be gone with it, and are there with any other."""
        for tid in (pid, *self._threads(pid)):
            folder = self._probes.at("proc", str(tid), "map_files")
            with suppress(OSError):
                if os.listdir(folder):
                    yield folder
                    return

    def _threads(self, pid: int) -> list[int]:
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
    buffer = ctypes.create_string_buffer(STATX_SIZE)
    asked = _libc().statx(AT_FDCWD, os.fsencode(path), DONT_SYNC, STATX_TYPE, buffer)
    if asked != 0:
        return None
    (mode,) = struct.unpack_from("=H", buffer, MODE_AT)
    major, minor = struct.unpack_from("=II", buffer, RDEV_AT)
    return (major, minor) if stat.S_ISCHR(mode) else None


def _opened(path: str) -> Optional[Device]:
    """Nothing of a device is used by a handle that is a name and no more."""
    device = device_of(path)
    if device is not None:
        flags = FLAGS.search(_about(path) or "")
        if flags and int(flags.group(1), 8) & PATH_ONLY:
            return None
    return device


def _maps(folder: str) -> dict[str, tuple[str, str]]:
    """Name in `map_files` → file system and inode of what is mapped, and how it is called."""
    found = {}
    with suppress(OSError), open(f"{os.path.dirname(folder)}/maps", errors="replace") as file:
        for line in file:
            words = [*line.rstrip("\n").split(maxsplit=5), ""]
            first, _, last = words[0].partition("-")
            name = f"{int(first, 16):x}-{int(last, 16):x}"
            found[name] = (f"{words[3]} {words[4]}", words[5])
    return found


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
