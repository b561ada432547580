"""`activity`: recent operations of the whole fleet."""

from __future__ import annotations

from reconciler.model.moment import format_moment
from reconciler.model.records import dataclass
from reconciler.model.state.event import EventType
from reconciler.model.timeline import Operation
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.history.timeline import under_way
from reconciler.operations.references import insist_on_name
from reconciler.planner.diagnosis.timeline import operations_of
from reconciler.store import queries
from reconciler.store.snapshot import read_world

EVENTS_AT_MOST = 5000
"""So many of the newest events are looked through for what was done of late."""


UNTOLD = frozenset(
    {
        EventType.STATE_CREATED,
        EventType.RUN_STARTED,
        EventType.RUN_ENDED,
        EventType.PLAN_USED,
        EventType.OBSERVED,
    }
)
"""Events that are about no resource, or about what nobody did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Recent operations, the newest first."""

    at: str
    operations: tuple[Operation, ...] = ()


def activity(fleet: Fleet, limit: int, project: str = "") -> Activity:
    """What was done last, by whom and why; with `project`, only about what is in it."""
    with without_collector(), fleet.reading() as database:
        if project:
            insist_on_name(fleet, database, read_world(database), "project", project)
        events = queries.newest_events(database, EVENTS_AT_MOST)
        steps = queries.step_words(database)
    told = [e for e in events if e.type not in UNTOLD and e.ref and _is_in(e.ref, project)]
    found = operations_of(told, steps, under_way(fleet))
    newest = sorted(found, key=lambda one: one.sequence, reverse=True)
    return Activity(at=format_moment(fleet.now()), operations=tuple(newest[:limit]))


def _is_in(ref: str, project: str) -> bool:
    """Of a ref as text: `kind/project/name`, or the project itself."""
    parts = ref.split("/")
    own = parts[1:2] == [project] and (len(parts) > 2 or parts[0] == "project")
    return not project or own
