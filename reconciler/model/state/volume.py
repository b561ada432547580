"""Volumes and attachments: where durable data is, and which allocations have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from reconciler.model.records import dataclass
from reconciler.model.ref import Ref


class VolumeState(StrEnum):
    PENDING = "pending"
    """About to be made: the only state in which a host may make, and format, anything."""
    MADE = "made"
    KEPT = "kept"
    """Its document is gone, its data is not; a document of its name takes it back."""
    WIPING = "wiping"
    GONE = "gone"


class BackendWord(StrEnum):
    """What the data of a volume lies on: the one key of its `backend`."""

    DIRECTORY = "directory"
    LOOP = "loop"
    NFS = "nfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """What a Storage is made of. `backend` is that of its class when it was made, in normal form:

    one key, a BackendWord. `node` is where its data lies, empty where every node of
    the class reaches it. `fenced` are ids of allocations that somebody has sworn to be cut off.
    """

    id: str
    ref: Ref
    class_name: str
    backend: Mapping[str, Any] = field(default_factory=dict)
    node: str = ""
    size_gib: int = 0
    state: VolumeState = VolumeState.PENDING
    since: str = ""
    owner: str = ""
    """Whom to ask about kept data: the owner of its project when its document went."""
    fenced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeIntent:
    """A volume to be written down before any host is touched; `node` as in Volume."""

    id: str
    ref: Ref
    class_name: str
    backend: Mapping[str, Any]
    node: str
    size_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """An allocation has a volume, or may still have it.

    It ends only by what its host shows, by the proof that frees its allocation, or by a fence.
    `mode` is `ro` or `rw`, `access` the access mode of the storage when it was attached, `storage`
    what it was called then: by that name its host has it.
    """

    allocation_id: str
    volume: str
    ref: Ref
    storage: Ref
    node: str
    mode: str
    access: str
    mount_path: str
    since: str = ""

    def bars(self, other: Attachment) -> bool:
        """Whether the allocations of both may not have the volume at one time."""
        if self.volume != other.volume or self.allocation_id == other.allocation_id:
            return False
        modes, writers = {self.access, other.access}, self.mode == other.mode == "rw"
        return "single_writer" in modes or (writers and modes != {"multi_writer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What is written down of durable data before any host is touched, as claims are."""

    volumes: tuple[VolumeIntent, ...] = ()
    attachments: tuple[Attachment, ...] = ()
