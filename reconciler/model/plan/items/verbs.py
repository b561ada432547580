"""Which work item each verb takes. A verb that only asks has none."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
from reconciler.model.plan.verb import Verb

ITEMS: Mapping[Verb, type[WorkItem]] = MappingProxyType(
    {
        Verb.PREPARE: PrepareItem,
        Verb.PROVIDE: ProvideItem,
        Verb.ATTACH: AttachItem,
        Verb.DETACH: DetachItem,
        Verb.REOPEN: ReopenItem,
        Verb.WIPE: WipeItem,
        Verb.FORGET: ForgetItem,
        Verb.SYNC: SyncItem,
        Verb.RESTART: RestartItem,
        Verb.QUARANTINE: QuarantineItem,
        Verb.RELEASE: ReleaseItem,
        Verb.STAGE: StageItem,
        Verb.REPAIR: StageItem,
        Verb.DISCARD: DiscardItem,
        Verb.WRITE_ENV: EnvironmentItem,
    }
)


def item_of(verb: str) -> type[WorkItem]:
    """The item of a recorded verb; raises ValueError or KeyError for what is no work."""
    return ITEMS[Verb(verb)]
