"""Budgets: how long a host may take for its work, by what it is asked for.

A host is given up when its budget is used up, and then nobody waits for it; what it still does is
found by the next look. A budget is generous: it is for hosts that hang, not for slow ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from reconciler.model.plan.plan import Step

ARRIVAL_SECONDS = 60.0
"""Until the work begins: ssh connects, and an earlier run ends or is taken over."""

OTHER_SECONDS = 60.0
SECONDS: Mapping[str, float] = MappingProxyType(
    {
        "node.prepare": 240.0,
        "allocation.provide": 60.0,
        "access.sync": 15.0,
        "allocation.restart": 180.0,
        "allocation.quarantine": 60.0,
        "allocation.release": 300.0,
        "storage.detach": 120.0,
        "storage.reopen": 90.0,
        "storage.wipe": 600.0,
        "storage.forget": 15.0,
        "runtime.write_env_file": 15.0,
        "runtime.discard": 120.0,
    }
)
"""For one item of a verb; a release takes away whatever somebody has kept in a home."""


def budget_of(steps: Iterable[Step], most: float) -> float:
    """Seconds for all of it, and never more than `most`."""
    return min(most, ARRIVAL_SECONDS + sum(SECONDS.get(s.verb, OTHER_SECONDS) for s in steps))
