"""Revision: the commit of the specs, and what git says about it."""

from __future__ import annotations

from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Where the specs stand: no `commit` without a repository; `dirty` = uncommitted edits."""

    commit: str = ""
    branch: str = ""
    dirty: bool = False
