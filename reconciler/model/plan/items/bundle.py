"""Work items of bundles: versions that are built, repaired and discarded."""

from __future__ import annotations

from reconciler.model.plan.items.item import WorkItem
from reconciler.model.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleItem(WorkItem):
    bundle: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageItem(BundleItem):
    """`current` is the version that is to be the host's default, or nothing."""

    python: str
    lock: str
    lock_digest: str
    digest: str
    index: str
    imports: tuple[str, ...]
    activate: str
    program: str
    current: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardItem(BundleItem):
    with_default: bool
