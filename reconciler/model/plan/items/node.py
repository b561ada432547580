"""The work item that readies a host for tenants."""

from __future__ import annotations

from reconciler.model.plan.items.item import FileItem, PathItem, WorkItem
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockItem:
    """Lines of ours in a file of the distribution, at its `start` or its `end`."""

    path: str
    content: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareItem(WorkItem):
    login: str
    undo_after: int
    directories: tuple[PathItem, ...]
    files: tuple[FileItem, ...]
    blocks: tuple[BlockItem, ...]
    open_slice: str
    units: tuple[str, ...]
