"""The answers of kinds that have no effect on hosts: nothing to do there."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.kinds.contract import Binding, Context
from reconciler.model.plan.plan import Step
from reconciler.model.spec.desired import Desired
from reconciler.model.spec.resource import Resource


def needs(resource: Resource, desired: Desired) -> None:
    """No capacity."""


def basis(binding: Binding, context: Context) -> Mapping[str, object]:
    """No file of it stands on a host."""
    return {}


def steps(binding: Binding, context: Context) -> tuple[Step, ...]:
    return ()


def expected(binding: Binding, context: Context) -> Mapping[str, str | None]:
    return {}


NO_HOST_EFFECTS = (needs, basis, steps, expected)
"""Bound by a kind in one line: `needs, basis, steps, expected = NO_HOST_EFFECTS`."""


def everything_is_supported(resource: Resource) -> str:
    """`unsupported` of a kind that this version knows whole."""
    return ""
