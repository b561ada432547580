"""Topology: whether a node can reach a storage, by its class and where its data is.

Asked of every node before an allocation is placed, and of its own node before it joins more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from reconciler.kinds.node.spec import NodeSpec
from reconciler.model.host.capacity import StorageNeed


def class_not_available(name: str, node: NodeSpec, need: StorageNeed) -> str:
    everywhere = not need.nodes and not need.families
    if everywhere or name in need.nodes or node.family in need.families:
        return ""
    return f"class {need.class_name} is not available on {name}"


def storage_backend_unfit(name: str, node: NodeSpec, need: StorageNeed) -> str:
    if node.isolation in need.isolation:
        return ""
    return f"class {need.class_name} works on no node of isolation {node.isolation}"


def storage_on_other_node(name: str, node: NodeSpec, need: StorageNeed) -> str:
    return f"{need.name} lies on {need.node}" if need.node not in ("", name) else ""


REACH_RULES: Mapping[str, Callable[[str, NodeSpec, StorageNeed], str]] = MappingProxyType(
    {
        "class_not_available": class_not_available,
        "storage_backend_unfit": storage_backend_unfit,
        "storage_on_other_node": storage_on_other_node,
    }
)
"""Code → why a node, by its name and spec, cannot have a storage; '' if it can."""
