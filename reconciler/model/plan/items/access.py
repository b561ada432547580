"""Work items of access: the key file of a login, and the environment of its sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reconciler.model.plan.items.item import AllocationItem, FileItem, unspared
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncItem(AllocationItem):
    files: tuple[FileItem, ...]
    absent: tuple[str, ...]
    uid: int
    gid: int

    def without(self, is_spared: Callable[[str], bool]) -> SyncItem:
        return replace(self, files=unspared(self.files, is_spared))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentItem(AllocationItem):
    uid: int
    gid: int
    files: tuple[FileItem, ...]

    def without(self, is_spared: Callable[[str], bool]) -> EnvironmentItem:
        return replace(self, files=unspared(self.files, is_spared))
