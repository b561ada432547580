"""A snapshot: the state as it was before an apply, as people are told of it."""

from __future__ import annotations

from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A file of `size` bytes, made `at` a moment when the state was at `serial`.

    `run` is the last one it knows of, `commit` what that applied. `problem` says why it cannot be
    looked into.
    """

    path: str
    serial: int
    at: str
    size: int
    run: str = ""
    commit: str = ""
    problem: str = ""
