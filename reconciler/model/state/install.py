"""Installs: versions of bundles on nodes, as the platform has put them there."""

from __future__ import annotations

from enum import StrEnum

from reconciler.model.records import dataclass


class InstallState(StrEnum):
    STAGING = "staging"
    """A host was asked for it, and has not shown it yet."""
    STAGED = "staged"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """One bundle version on one node.

    `digest` is that of the tree, as the host showed it when it was installed; `lock_digest` is that
    of the requirements it was made from; `since` is when it came into its state.
    """

    node: str
    bundle: str
    version: str
    lock_digest: str
    state: InstallState
    digest: str = ""
    since: str = ""
    problem: str = ""
