"""Documents: one YAML document of a file, and the cache that spares reading it twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """`value` is a plain tree of dict, list, str, int, float and bool. `line` is its first line."""

    file: str
    index: int
    line: int
    value: Mapping[str, Any]


class FileStamp(NamedTuple):
    """What stat says of a file; equal stamps mean that nobody wrote to it (see git's index)."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class DocumentCache(Protocol):
    """Kept beside the state, never a truth: may be empty, lost or read-only at any time.

    `get_many`/`put_many` hold opaque text by (space, key); `stamps` maps a file to its stamp and
    the digest of its content.
    """

    def get_many(self, space: str, keys: Iterable[str]) -> Mapping[str, str]: ...

    def put_many(self, space: str, rows: Mapping[str, str]) -> None: ...

    def stamps(self) -> Mapping[str, tuple[FileStamp, str]]: ...

    def put_stamps(
        self, rows: Mapping[str, tuple[FileStamp, str]], gone: Iterable[str] = ()
    ) -> None: ...


class NoCache:
    """The cache of who has none."""

    def get_many(self, space: str, keys: Iterable[str]) -> Mapping[str, str]:
        return {}

    def put_many(self, space: str, rows: Mapping[str, str]) -> None:
        return

    def stamps(self) -> Mapping[str, tuple[FileStamp, str]]:
        return {}

    def put_stamps(
        self, rows: Mapping[str, tuple[FileStamp, str]], gone: Iterable[str] = ()
    ) -> None:
        return
