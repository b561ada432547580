"""The revision: where specs stand in git."""

from __future__ import annotations

from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Where the specs stand: no `commit` without a repository; `dirty` = uncommitted edits."""

    commit: str = ""
    branch: str = ""
    dirty: bool = False
