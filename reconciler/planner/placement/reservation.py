"""Reservations: limits beside the slots of a node, checked for each seat."""

from __future__ import annotations

from typing import Protocol

from reconciler.kinds.node.spec import NodeSpec
from reconciler.model.host.capacity import Need
from reconciler.model.problem import Problem
from reconciler.model.spec.resource import Resource
from reconciler.planner.core.difference import Difference


class Reservation(Protocol):
    """A limit beside slots, kept while requests get their places; what is taken counts for the
    next.

    `id` and `node` are empty as long as a request has no place.
    """

    def located(self, need: Need) -> Need:
        """The need, with what is known of where it can be met."""

    def refusal(
        self, difference: Difference, id: str = "", node: Resource[NodeSpec] | None = None
    ) -> Problem | None:
        """Why the need cannot be met there; None if it can."""

    def take(self, difference: Difference, id: str, node: Resource[NodeSpec]) -> None:
        """Take what is needed there."""
