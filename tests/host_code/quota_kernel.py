"""A kernel that counts by project and by user: the two system calls of quotas, in bytes."""

from __future__ import annotations

import errno
import os
from ctypes import Array, c_char
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gpuaas import projects, quota_shares, quotactl, quotas
from gpuaas.mounts import Mount
from gpuaas.paths import Tree
from gpuaas.quotactl import PROJECT, USER, Limits

DEVICE, BLOCK = "/dev/fake", 4096
BOTH = frozenset({USER, PROJECT})
OTHER_FLAGS = 0x40
"""Something else that is said of every file, and that is nobody's to lose."""


@dataclass(slots=True)
class Kernel:
    """One file system, that of `root`. `fails` are the numbers that each sort of call ends with."""

    root: Path
    enforced: frozenset[int] = BOTH
    options: tuple[str, ...] = ("rw", "prjquota", "usrquota")
    kind: str = "ext4"
    blocks: int = 1_000_000
    files: int = 80_000
    limits: dict[tuple[int, int], Limits] = field(default_factory=dict)
    attributes: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Inode → project and flags."""
    given: list[str] = field(default_factory=list)
    """Paths in the order in which they were given a project."""
    sets: int = 0
    fails: dict[int, int] = field(default_factory=dict)

    def call(self, command: int, device: str, id: int, buffer: Array[c_char]) -> None:
        assert device == DEVICE
        what, kind = command >> 8, command & 255
        if what in self.fails:
            raise OSError(self.fails[what], os.strerror(self.fails[what]))
        if what == quotactl.STATE:
            flags = sum(quotactl.ENFORCED[one] for one in self.enforced)
            buffer[2:4] = flags.to_bytes(2, "little")
        elif what == quotactl.GET:
            if (kind, id) not in self.limits:
                raise OSError(errno.ENOENT, "never counted")
            has = self.limits[kind, id]
            told = (has.kib, 9, 9, has.files, 9, 9, 9, 9, 63)
            buffer[: quotactl.NUMBERS.size] = quotactl.NUMBERS.pack(*told)
        else:
            assert what == quotactl.SET and kind in self.enforced
            kib, soft, _, files, soft_files, *_, valid = quotactl.NUMBERS.unpack(buffer.raw)
            assert (soft, soft_files, valid) == (0, 0, 5)
            self.limits[kind, id] = Limits(kib, files)
            self.sets += 1

    def ioctl(self, opened: int, request: int, data: bytes) -> bytes:
        inode = os.fstat(opened).st_ino
        project, flags = self.attributes.get(inode, (0, OTHER_FLAGS))
        if request == projects.GET:
            return projects.FORM.pack(flags, 7, 1, project, 3)
        flags, extent, _, project, copied = projects.FORM.unpack(data)
        assert (extent, copied, flags & OTHER_FLAGS) == (7, 3, OTHER_FLAGS)
        self.attributes[inode] = (project, flags)
        self.given.append(os.readlink(f"/proc/self/fd/{opened}"))
        return data

    def mounts(self) -> list[Mount]:
        number = self.root.stat().st_dev
        device = f"{os.major(number)}:{os.minor(number)}"
        mounted = Mount(str(self.root), device, "/", self.kind, self.options)
        return [mounted._replace(point=f"{self.root}/mnt/bound"), mounted]

    def statvfs(self, path: str) -> Any:
        return SimpleNamespace(f_blocks=self.blocks, f_frsize=BLOCK, f_files=self.files)

    def project(self, path: str) -> tuple[int, bool]:
        project, flags = self.attributes.get((self.root / path).stat().st_ino, (0, 0))
        return project, bool(flags & projects.HANDED_ON)

    def stand_in(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(quotactl, "call", self.call)
        patch.setattr(projects, "ioctl", self.ioctl)
        patch.setattr(quota_shares, "device_of", lambda mount: DEVICE)
        patch.setattr(quota_shares.os, "statvfs", self.statvfs)
        for module in (quota_shares, quotas):
            patch.setattr(module, "mounts", self.mounts)
        patch.setattr(Tree, "whole_host", property(lambda tree: True))
