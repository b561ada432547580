"""Tasks: work on hosts that a feature adds, beside the changes of allocations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from reconciler.model.plan.plan import Cause, Risk, Step
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.planner.core.difference import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Steps for one ref, which go with whatever else becomes of it.

    `difference` is that of a line of its own, which it has where no other line is about its ref;
    that line has also its `risk` and `cause`. `basis` is what the host is made from. One that is
    `early` readies a host before anybody is placed on it. `fingerprint` is what an approval of it
    has to be for; empty where nobody has to approve it.
    """

    difference: Difference
    steps: tuple[Step, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    basis: str = ""
    risk: Risk | None = None
    cause: Cause | None = None
    early: bool = False
    fingerprint: str = ""

    @property
    def ref(self) -> Ref:
        return self.difference.ref
