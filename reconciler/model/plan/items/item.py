"""The work item: all that a host is told of a step besides its verb and its ref.

Each verb has a record of its own beside this one; its fields, written as JSON, are exactly the
keys of the verb's contract. An account that is none is told as number 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from reconciler.model.records import dataclass


class WorkItem:
    """What every verb's item answers."""

    __slots__ = ()

    @property
    def allocation_id(self) -> str | None:
        """The id of the allocation that the work is for; None where it is for nobody's."""
        return None

    @property
    def account_uid(self) -> int:
        """The uid of the account that the work is about; 0 where it names none."""
        return 0

    def without(self, is_spared: Callable[[str], bool]) -> WorkItem:
        """The same work but for those of its files and folders whose path is spared."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationItem(WorkItem):
    """Work for one allocation, by its id and its login."""

    id: str
    login: str

    @property
    def allocation_id(self) -> str | None:
        return self.id

    @property
    def account_uid(self) -> int:
        # Most verbs name it, each at its own place among its keys.
        uid: int = getattr(self, "uid", 0)
        return uid


@dataclass(frozen=True, slots=True, kw_only=True)
class PathItem:
    path: str
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileItem(PathItem):
    """A file that is replaced whole."""

    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderItem(PathItem):
    """A folder, what it holds is not touched; of whoever works on the host where both are 0."""

    uid: int = 0
    gid: int = 0


PathT = TypeVar("PathT", bound=PathItem)


def unspared(paths: Iterable[PathT], is_spared: Callable[[str], bool]) -> tuple[PathT, ...]:
    return tuple(one for one in paths if not is_spared(one.path))
