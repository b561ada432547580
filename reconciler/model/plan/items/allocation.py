"""Work items that make, restart, still and remove an allocation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from reconciler.model.codec import written_as
from reconciler.model.plan.items.item import AllocationItem, FileItem, FolderItem, unspared
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountItem:
    """What a host needs to make an account, besides its folders and files."""

    uid: int
    gid: int
    group: str
    gecos: str
    shm_bytes: int
    subids: int
    slots: int
    node_slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvideItem(AllocationItem):
    directories: tuple[FolderItem, ...]
    files: tuple[FileItem, ...]
    account: AccountItem | None = field(metadata=written_as(None))

    def without(self, is_spared: Callable[[str], bool]) -> ProvideItem:
        return replace(
            self,
            directories=unspared(self.directories, is_spared),
            files=unspared(self.files, is_spared),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartItem(AllocationItem):
    uid: int
    generation: int
    reboot: bool
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineItem(AllocationItem):
    uid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseItem(AllocationItem):
    absent: tuple[str, ...]
    uid: int
    gid: int
