"""`timeline`: the history of one resource, as its operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reconciler.model.moment import format_moment, parse_moment
from reconciler.model.records import dataclass
from reconciler.model.ref import Ref
from reconciler.model.state.event import Event, EventType
from reconciler.model.state.world import Recorded
from reconciler.model.timeline import Operation, Standing, Under
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.references import ref_of, unknown_ref
from reconciler.planner.diagnosis.timeline import operations_of
from reconciler.store import queries
from reconciler.store.file.database import Database
from reconciler.store.file.lock import holder
from reconciler.store.progress import read_progress
from reconciler.store.snapshot import read_world


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """`phase` is that of now as recorded, empty for what is not; `where` its node and slots."""

    ref: str
    at: str
    phase: str = ""
    where: str = ""
    operations: tuple[Operation, ...] = ()


def timeline(fleet: Fleet, ref_text: str) -> Timeline:
    """Everything that was done about a resource, oldest first. Raises ProblemError `not_found`."""
    ref = ref_of(ref_text)
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        recorded = world.recorded.get(ref)
        events = tuple(_events(database, str(ref)))
        steps = queries.step_words(database, str(ref))
    if recorded is None and not events:
        raise unknown_ref(fleet, world, ref, "nothing that anything was ever done about")
    return Timeline(
        ref=str(ref),
        at=format_moment(fleet.now()),
        phase=recorded.phase if recorded else "",
        where=_where(ref, recorded),
        operations=operations_of(events, steps, under_way(fleet)),
    )


def under_way(fleet: Fleet) -> Under:
    """What a living process does just now; nothing where nobody holds the lock."""
    if holder(fleet.state / "lock") is None:
        return Under()
    return read_progress(fleet.state)


def seconds_of(started: str, ended: str) -> int | None:
    """How long something took, None where either end is no time."""
    first, last = parse_moment(started), parse_moment(ended)
    return None if first is None or last is None else max(0, int((last - first).total_seconds()))


def stalled(operation: Operation, at: str) -> bool:
    """Whether it is under way and has not moved for longer than a host is waited for."""
    still = seconds_of(operation.progress, at)
    under_way = operation.state is Standing.RUNNING and operation.run != ""
    return under_way and still is not None and still > STALLED_SECONDS


STALLED_SECONDS = 120


def _events(database: Database, ref: str) -> Iterator[Event]:
    """Those of a ref; before it was renamed to this one, those of its name before."""
    found = list(queries.events(database, ref))
    renamed = next((event for event in found if event.type is EventType.RENAMED), None)
    former = str((renamed.before or {}).get("ref", "")) if renamed else ""
    if renamed and former != ref:
        for event in queries.events(database, former):
            if event.sequence < renamed.sequence:
                yield replace(event, ref=ref)
    yield from found


def _where(ref: Ref, recorded: Recorded | None) -> str:
    if recorded is None or not recorded.node:
        return ""
    return f"{recorded.node}/{','.join(recorded.slots) or '*'}"
