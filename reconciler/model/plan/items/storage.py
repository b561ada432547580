"""Work items of storage: volumes that are attached, detached, opened anew, wiped and forgotten."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model.plan.items.item import AllocationItem, FileItem, WorkItem
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedVolume:
    """A volume as an allocation is to have it; `files` are its mount units."""

    id: str
    name: str
    backend: Mapping[str, object]
    size_gib: int
    access: str
    mode: str
    mount_path: str
    make: bool
    fenced: tuple[str, ...]
    record: str
    files: tuple[FileItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachItem(AllocationItem):
    uid: int
    gid: int
    volumes: tuple[AttachedVolume, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedVolume:
    """A volume that an allocation has no more; `absent` are its mount units."""

    id: str
    name: str
    backend: Mapping[str, object]
    mount_path: str
    absent: tuple[str, ...]
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachItem(AllocationItem):
    uid: int
    end: bool
    volumes: tuple[DetachedVolume, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenItem(AllocationItem):
    """`from_` is the allocation that has ended, whose files become the other one's."""

    uid: int
    volume: str
    backend: Mapping[str, object]
    fenced: tuple[str, ...]
    from_: str
    from_uid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeItem(WorkItem):
    """Work on a volume that nobody has; `record` is the path of its record."""

    volume: str
    backend: Mapping[str, object]
    record: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeItem(VolumeItem):
    """Its data goes, and then its record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetItem(VolumeItem):
    """Only its record goes, since another host has wiped its data."""
