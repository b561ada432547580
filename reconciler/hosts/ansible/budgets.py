"""Budgets: how long a host may take for its work, depending on the verbs.

A host is given up when its budget is used up, and then nobody waits for it; what it still does is
found by the next look. A budget is generous: it is for hosts that hang, not for slow ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from reconciler.model.plan.plan import Step
from reconciler.model.plan.verb import Verb

ARRIVAL_SECONDS = 60.0
"""Until the work begins: ssh connects, and an earlier run ends or is taken over."""

OTHER_SECONDS = 60.0
SECONDS: Mapping[str, float] = MappingProxyType(
    {
        Verb.PREPARE: 240.0,
        Verb.PROVIDE: 60.0,
        Verb.SYNC: 15.0,
        Verb.RESTART: 180.0,
        Verb.QUARANTINE: 60.0,
        Verb.RELEASE: 300.0,
        Verb.DETACH: 120.0,
        Verb.REOPEN: 90.0,
        Verb.WIPE: 600.0,
        Verb.FORGET: 15.0,
        Verb.WRITE_ENV: 15.0,
        Verb.DISCARD: 120.0,
    }
)
"""For one item of a verb; a release takes away whatever somebody has kept in a home."""


def budget_of(steps: Iterable[Step], most: float) -> float:
    """Seconds for all of it, and never more than `most`."""
    return min(most, ARRIVAL_SECONDS + sum(SECONDS.get(s.verb, OTHER_SECONDS) for s in steps))
