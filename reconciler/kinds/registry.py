"""The registry of kinds: the word of a ref → the module that knows the kind."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from reconciler.kinds import (
    app,
    app_manifest,
    artifact,
    bundle,
    grant,
    node_family,
    policy,
    project,
    sku,
    storage,
    storage_class,
    user,
)
from reconciler.kinds.allocation import allocation
from reconciler.kinds.contract import Kind
from reconciler.kinds.node import node

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
