"""What each table writes when a wave begins, when it ends, and when something is recorded.

The order is the order: events are told in it. A feature that hosts are asked for has a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reconciler.model.host.evidence import Observation
from reconciler.model.plan.work import WaveIntent, WaveOutcome
from reconciler.model.ref import Ref
from reconciler.model.state.world import Recorded
from reconciler.store.tables import (
    attachments,
    claims,
    cleanups,
    consents,
    expiry,
    failures,
    installs,
    observations,
    people,
    removals,
    resources,
    restarts,
    revocations,
    runs,
    usage,
    volumes,
)
from reconciler.store.transaction import Record

OBSERVE: tuple[Callable[[Record, Sequence[Observation]], None], ...] = (
    observations.observe,
    cleanups.observe,
    installs.observe,
)
"""What nodes have said."""


def observe(record: Record, told: Sequence[Observation]) -> None:
    for table in OBSERVE:
        table(record, told)


def _observe(record: Record, outcome: WaveOutcome) -> None:
    observe(record, outcome.observations)


BEGIN: tuple[Callable[[Record, WaveIntent], None], ...] = (
    claims.begin,
    volumes.begin,
    attachments.begin,
    volumes.begin_wipes,
    installs.begin,
    resources.begin,
    people.begin,
    runs.begin_steps,
    revocations.begin,
    expiry.begin,
    restarts.begin,
    removals.begin,
    consents.begin,
)
"""The intent, before any host is touched."""

SETTLE: tuple[Callable[[Record, WaveOutcome], None], ...] = (
    runs.end_steps,
    revocations.settle,
    installs.settle,
    _observe,
    failures.settle,
    claims.settle,
    volumes.settle,
    attachments.settle,
)
"""What hosts have shown of it."""

KEEP: tuple[Callable[[Record, Sequence[Recorded]], None], ...] = (
    failures.keep,
    resources.keep,
    people.keep,
    volumes.keep,
    cleanups.keep,
    usage.begin_use,
    usage.count_lost,
)
"""Resources as they are applied from now on."""


def keep(record: Record, recorded: Sequence[Recorded]) -> None:
    for table in KEEP:
        table(record, recorded)


FINISH: tuple[Callable[[Record, Sequence[Ref], Sequence[Ref]], None], ...] = (
    consents.finish,
    expiry.finish,
)
"""What a wave has done, by refs: those that are recorded, and those that are gone."""

DONE: tuple[Callable[[Record, Sequence[Ref]], None], ...] = (consents.use, removals.note)
"""What was done without any host."""
