"""Handles: the device nodes that a process has open or mapped, by their numbers.

A name is chosen by whoever mounts, and a thread may have a table of open files of its own. No file
system is asked about its files: a server, or somebody's program, may never answer.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
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

IN_FLIGHT = re.compile(r"^scm_fds:\s*([1-9]\d*)$", re.MULTILINE)
MAX_ABOUT = 1 << 16

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
        found = {device_of(p) for folder in self._tables(pid) for p in self._inside(pid, folder)}
        for folder in self._mappings(pid):
            files = _files(f"{os.path.dirname(folder)}/maps")
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

    def in_flight(self, pid: int) -> int:
        """How many open files wait in its sockets: nobody has them, and somebody may take them."""
        paths = [path for folder in self._tables(pid) for path in self._inside(pid, folder)]
        told = (IN_FLIGHT.search(about) for about in map(_about_socket, paths))
        return sum(int(found.group(1)) for found in told if found)

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


def _files(path: str) -> dict[str, str]:
    """Name in `map_files` → the file system and the inode that are mapped there."""
    found = {}
    with suppress(OSError), open(path, errors="replace") as file:
        for line in file:
            words = line.split(maxsplit=5)
            first, _, last = words[0].partition("-")
            found[f"{int(first, 16):x}-{int(last, 16):x}"] = f"{words[3]} {words[4]}"
    return found


def _about_socket(path: str) -> str:
    with suppress(OSError):
        if os.readlink(path).startswith("socket:"):
            folder, name = os.path.split(path)
            with open(f"{folder}info/{name}", errors="replace") as file:
                return file.read(MAX_ABOUT)
    return ""


def _share(one: int, other: int) -> bool:
    """Whether two threads have one table of open files; not where nobody can say."""
    number = KCMP.get(platform.machine())
    return number is not None and _libc().syscall(number, one, other, KCMP_FILES, 0, 0) == 0


@lru_cache(maxsize=None)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
