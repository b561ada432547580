"""Verbs: the closed list of what a step asks a host for.

What each is given is a record of `model/plan/items`; what that means, what the verb shows and what
it refuses stands in `hosts/contracts`.
"""

from __future__ import annotations

from enum import StrEnum

from reconciler.model.plan.items.access import EnvironmentItem, SyncItem
from reconciler.model.plan.items.allocation import (
    ProvideItem,
    QuarantineItem,
    ReleaseItem,
    RestartItem,
)
from reconciler.model.plan.items.bundle import DiscardItem, StageItem
from reconciler.model.plan.items.item import WorkItem
from reconciler.model.plan.items.node import PrepareItem
from reconciler.model.plan.items.storage import (
    AttachItem,
    DetachItem,
    ForgetItem,
    ReopenItem,
    WipeItem,
)


class Verb(StrEnum):
    """Each with the record of what a host is given; one that only asks gives nothing."""

    item: type[WorkItem] | None

    def __new__(cls, name: str, item: type[WorkItem] | None = None) -> Verb:
        verb = str.__new__(cls, name)
        verb._value_, verb.item = name, item
        return verb

    OBSERVE = "node.observe"
    DISCOVER = "slice.topology_discover"
    PREPARE = "node.prepare", PrepareItem
    """Readies a host for tenants, and may break its door."""
    PROVIDE = "allocation.provide", ProvideItem
    ATTACH = "storage.attach", AttachItem
    DETACH = "storage.detach", DetachItem
    REOPEN = "storage.reopen", ReopenItem
    WIPE = "storage.wipe", WipeItem
    FORGET = "storage.forget", ForgetItem
    SYNC = "access.sync", SyncItem
    RESTART = "allocation.restart", RestartItem
    QUARANTINE = "allocation.quarantine", QuarantineItem
    RELEASE = "allocation.release", ReleaseItem
    STAGE = "runtime.stage", StageItem
    REPAIR = "runtime.repair", StageItem
    DISCARD = "runtime.discard", DiscardItem
    WRITE_ENV = "runtime.write_env_file", EnvironmentItem


STAGING = frozenset({Verb.STAGE, Verb.REPAIR})
"""Those that build a version of a bundle."""

SHOW_NOTHING = frozenset({Verb.FORGET})
"""Those after which a host shows all that it has shown before."""


def item_of(verb: str) -> type[WorkItem]:
    """The item of a recorded verb; raises ValueError for what is no work."""
    found = Verb(verb).item
    if found is None:
        raise ValueError(f"{verb!r} is no work for a host")
    return found
