"""The registry of kinds: the word of a ref → the module that knows the kind."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from reconciler.kinds import (
    allocation,
    app,
    app_manifest,
    artifact,
    bundle,
    grant,
    node,
    node_family,
    policy,
    project,
    sku,
    storage,
    storage_class,
    user,
)
from reconciler.kinds.contract import Kind

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "allocation": allocation,
        "storage": storage,
        "grant": grant,
        "app": app,
        "user": user,
        "project": project,
        "node_family": node_family,
        "node": node,
        "sku": sku,
        "storage_class": storage_class,
        "bundle": bundle,
        "artifact": artifact,
        "app_manifest": app_manifest,
        "policy": policy,
    }
)
