"""quotactl(2): limits and usage of a file system, by project or by user.

Every failure is the kernel's own, as an OSError.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import struct
from typing import Iterator, NamedTuple, Optional

from .mounts import Mount

NUMBER = {"x86_64": 179, "aarch64": 60}
USER, PROJECT = 0, 2
GET, SET, STATE = 0x800007, 0x800008, 0x5805
ENFORCED = {USER: 1 << 1, PROJECT: 1 << 5}
"""In what the kernel says of a whole file system: not only counted, but held to."""

STATE_SIZE, FLAGS = 256, struct.Struct("=2xH")
NUMBERS = struct.Struct("=8QI4x")
KIB = 1024
"""Limits of room are numbers of these."""

OF_LIMITS = 1 | 4


class Limits(NamedTuple):
    """What one may have in KiB and in files; 0 is without an end."""

    kib: int
    files: int


NO_LIMITS = Limits(0, 0)


def enforced(device: str) -> frozenset[int]:
    """By what the file system on this device bounds anybody."""
    buffer = ctypes.create_string_buffer(STATE_SIZE)
    call(STATE << 8 | PROJECT, device, 0, buffer)
    (flags,) = FLAGS.unpack_from(buffer)
    return frozenset(kind for kind, flag in ENFORCED.items() if flags & flag)


def limits_of(device: str, kind: int, id: int) -> Limits:
    """Whoever was never counted has none."""
    buffer = ctypes.create_string_buffer(NUMBERS.size)
    try:
        call(GET << 8 | kind, device, id, buffer)
    except FileNotFoundError:
        return NO_LIMITS
    numbers = NUMBERS.unpack(buffer.raw)
    return Limits(numbers[0], numbers[3])


def set_limits(device: str, kind: int, id: int, limits: Limits) -> None:
    """Hard ones: nobody is let go beyond for a while, to be stopped later."""
    told = NUMBERS.pack(limits.kib, 0, 0, limits.files, 0, 0, 0, 0, OF_LIMITS)
    call(SET << 8 | kind, device, id, ctypes.create_string_buffer(told, NUMBERS.size))


def call(command: int, device: str, id: int, buffer: ctypes.Array[ctypes.c_char]) -> None:
    number = NUMBER.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    libc = ctypes.CDLL(None, use_errno=True)
    words = (ctypes.c_long(number), ctypes.c_ulong(command), os.fsencode(device))
    if libc.syscall(*words, ctypes.c_long(id), buffer) < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))


def device_of(mount: Mount) -> str:
    """The block device that it is on, by a name that there is. Raises OSError where there is none.

    What is mounted as the root may be said to be of a device of no such name.
    """
    for name in _names(mount):
        try:
            found = os.stat(name)
        except OSError:
            continue
        number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
        if stat.S_ISBLK(found.st_mode) and number == mount.device:
            return name
    raise OSError(errno.ENOTBLK, os.strerror(errno.ENOTBLK))


def _names(mount: Mount) -> Iterator[str]:
    if mount.source.startswith("/"):
        yield mount.source
    yield f"/dev/block/{mount.device}"
    name = _kernels_name(mount.device)
    if name is not None:
        yield f"/dev/{name}"


def _kernels_name(device: str) -> Optional[str]:
    try:
        with open(f"/sys/dev/block/{device}/uevent", encoding="ascii", errors="replace") as file:
            told = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    except OSError:
        return None
    return told.get("DEVNAME")
