"""The registry of features, in the order in which a plan asks them."""

from __future__ import annotations

from reconciler.planner.features.access import Access
from reconciler.planner.features.bundles import Bundles
from reconciler.planner.features.contract import Feature
from reconciler.planner.features.drift import Drifted
from reconciler.planner.features.lifecycle import Lifecycle
from reconciler.planner.features.nodes import Nodes
from reconciler.planner.features.storage import Storages

FEATURES: tuple[Feature, ...] = (
    Lifecycle(),
    Access(),
    Nodes(),
    Drifted(),
    Bundles(),
    Storages(),
)
"""Of two refusals of one ref that of the later feature is told."""
