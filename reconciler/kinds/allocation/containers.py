"""Containers: whether tenants may run their own, which only the Policy can allow.

Containers without root need user namespaces, which open more of the kernel to whoever has them.
"""

from __future__ import annotations

from reconciler.kinds.fleet_rules import policy_in
from reconciler.kinds.policy import Containers
from reconciler.model.spec.desired import Desired

CLOSED, OPEN = "0", "65536"
"""How many user namespaces a host has for each user: none, or more than anybody needs."""


def allows_containers(desired: Desired) -> bool:
    return policy_in(desired).containers is Containers.ROOTLESS


def user_namespaces(containers: bool) -> str:
    return OPEN if containers else CLOSED
