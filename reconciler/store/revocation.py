"""Revocations written beside the holder of the lock: what is pending, and its outcome."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.model.plan.plan import Step
from reconciler.model.plan.work import WaveOutcome
from reconciler.model.state.world import Recorded, Suspension
from reconciler.store.registry import registry
from reconciler.store.tables import resources, revocations, runs, suspensions
from reconciler.store.transaction import Record


def begin(record: Record, steps: Sequence[Step], since: str) -> frozenset[str]:
    """From now on it is pending that these take access away, until their hosts show it.

    The nodes that a run works on just now which began at `since` or later.
    """
    resources.doubt(record, steps)
    revocations.await_ends(record, steps)
    return runs.nodes_at_work(record.connection, since)


def finish(
    record: Record,
    known: Sequence[Suspension],
    outcome: WaveOutcome,
    recorded: Sequence[tuple[Recorded, Recorded]],
) -> bool:
    """What came of steps that were made when `known` was all that was suspended.

    `recorded` pairs what was recorded then with what is now, which is written where nobody else
    has written meanwhile. False, and nothing is taken for done, where something else is suspended
    by now, or no longer is.
    """
    registry.observe(record, outcome.observations)
    if suspensions.read_suspensions(record.connection) != tuple(known):
        return False
    shown = [one.step for one in outcome.steps if one.ok]
    others = resources.overtaken(record, {step.ref for step in shown})
    revocations.end(record, [step for step in shown if step.ref not in others])
    same = resources.still_in_doubt(record, [before for before, _ in recorded])
    registry.keep(record, [after for before, after in recorded if before.ref in same])
    return True
