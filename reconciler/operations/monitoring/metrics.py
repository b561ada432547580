"""Metrics: all of them in one table, and their text as Prometheus reads it.

Labels are words of closed lists, nodes and projects; never a name that anybody can make many of.
Moments are told as such, not as ages: whatever is read late is still true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reconciler import __version__
from reconciler.model.moment import parse_moment
from reconciler.model.records import dataclass
from reconciler.operations.inventory.sync import sync_of
from reconciler.operations.liveness.health import due_of
from reconciler.operations.liveness.presence import Presence
from reconciler.operations.monitoring.figures import Figures
from reconciler.operations.notifications.dispatch import DeliveryProgress
from reconciler.operations.rounds.rounds import Memory, Tick

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, in their order, and the number."""

PREFIX, TOTAL = "gpuaas_", "_total"
IDLE, WORKED, REFUSED = "idle", "worked", "refused"


@dataclass(slots=True)
class LoopCounters:
    """What has happened since the loop began; it only grows."""

    rounds: Counter[str] = field(default_factory=lambda: Counter({IDLE: 0, WORKED: 0, REFUSED: 0}))
    changes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    observed: int = 0
    refusals: int = 0
    """In a row, up to now."""
    last_round: float | None = None

    def count(self, tick: Tick) -> None:
        at = parse_moment(tick.at)
        self.last_round = at.timestamp() if at else self.last_round
        self.refusals = 0
        self.rounds[IDLE if tick.idle else WORKED] += 1
        self.changes.update(change.action.value for change in tick.done)
        self.failures.update(one.code for one in tick.failed)
        self.observed += tick.observed
        for phase, seconds in tick.seconds.items():
            self.seconds[phase] += seconds  # type: ignore[assignment]

    def refused(self) -> None:
        self.refusals += 1
        self.rounds[REFUSED] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that is shown at one moment. `figures` is None where the state could not be read.

    `copied` is when all of it was in its copy last, None where nobody can say.
    """

    said: Presence
    tally: LoopCounters
    memory: Memory
    figures: Figures | None
    told: tuple[DeliveryProgress, ...] = ()
    copied: datetime | None = None

    @property
    def last(self) -> Tick | None:
        return self.memory.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric. The name of a counter ends with _total."""

    name: str
    help: str
    samples: Callable[[View], Iterable[Sample]]
    labels: tuple[str, ...] = ()


def text(view: View) -> bytes:
    """In the format that textfiles and scrapes have in common."""
    registry = CollectorRegistry()
    registry.register(_Shown(view))
    return generate_latest(registry)


class _Shown(Collector):
    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        for one in FAMILIES:
            name = f"{PREFIX}{one.name}"
            made = (
                CounterMetricFamily(name, one.help, labels=one.labels)
                if name.endswith(TOTAL)
                else GaugeMetricFamily(name, one.help, labels=one.labels)
            )
            for labels, value in one.samples(self._view):
                made.add_metric(labels, value)
            yield made


def _alone(value: float | None) -> Iterator[Sample]:
    """A number without labels; none where it is not known."""
    if value is not None:
        yield (), float(value)


def _each(numbers: Mapping[str, float]) -> Iterator[Sample]:
    return (((word,), float(number)) for word, number in sorted(numbers.items()))


def _pairs(numbers: Mapping[tuple[str, str], float]) -> Iterator[Sample]:
    return ((words, float(number)) for words, number in sorted(numbers.items()))


def _notifications(view: View) -> Iterator[Sample]:
    for one in view.told:
        yield (one.name, "delivered"), one.delivered
        yield (one.name, "dropped"), one.dropped
        yield (one.name, "failed"), one.failed


def _of_fleet(take: Callable[[Figures], Iterable[Sample]]) -> Callable[[View], Iterable[Sample]]:
    """Nothing is shown of a state that could not be read."""
    return lambda view: () if view.figures is None else take(view.figures)


def _moment(text: str) -> float | None:
    moment: datetime | None = parse_moment(text)
    return None if moment is None else moment.timestamp()


def _due(view: View) -> Iterator[Sample]:
    due = due_of(view.said)
    return _alone(due.timestamp() if due else None)


def _waits(view: View) -> Iterator[Sample]:
    names = view.memory.pace.waiting(view.memory.clock())
    nodes = sum(name.startswith("node/") for name in names)
    return _each({"node": nodes, "resource": len(names) - nodes})


def _changes(view: View) -> Iterator[Sample]:
    plan = view.last.left if view.last else None
    codes = (
        (sync_of(change).word, change.problem.code if change.problem else "")
        for change in (plan.changes if plan else ())
    )
    return _pairs(Counter(codes))


def _problems(view: View) -> Iterator[Sample]:
    last = view.last
    found = [*(last.problems if last else ()), *(last.plan.problems if last and last.plan else ())]
    return _pairs(Counter((one.code, one.severity.value) for one in found))


FAMILIES: tuple[Family, ...] = (
    Family(
        name="build_info",
        help="Version of gpuaas that exports these metrics.",
        labels=("version",),
        samples=lambda view: [((__version__,), 1.0)],
    ),
    Family(
        name="loop_start_timestamp_seconds",
        help="Start of the loop.",
        samples=lambda view: _alone(_moment(view.said.since)),
    ),
    Family(
        name="loop_heartbeat_timestamp_seconds",
        help="Last heartbeat of the loop.",
        samples=lambda view: _alone(_moment(view.said.said_at)),
    ),
    Family(
        name="loop_due_timestamp_seconds",
        help="Time by which the next heartbeat is due; a loop that is much later hangs.",
        samples=_due,
    ),
    Family(
        name="loop_last_round_timestamp_seconds",
        help="End of the last round that could start; absent before the first one.",
        samples=lambda view: _alone(view.tally.last_round),
    ),
    Family(
        name="loop_interval_seconds",
        help="Interval between rounds, from the settings.",
        samples=lambda view: _alone(view.said.interval_seconds),
    ),
    Family(
        name="loop_degraded",
        help="1 while the loop is degraded; loop.json and /healthz say why.",
        samples=lambda view: _alone(bool(view.said.degraded)),
    ),
    Family(
        name="loop_rounds_total",
        help="Rounds since the start of the loop: nothing had changed, worked, or refused.",
        labels=("result",),
        samples=lambda view: _each(view.tally.rounds),
    ),
    Family(
        name="loop_refusals",
        help="Refused rounds in a row, up to now.",
        samples=lambda view: _alone(view.tally.refusals),
    ),
    Family(
        name="loop_changes_total",
        help="Changes that the loop has applied.",
        labels=("action",),
        samples=lambda view: _each(view.tally.changes),
    ),
    Family(
        name="loop_failures_total",
        help="Failed attempts, by problem code.",
        labels=("code",),
        samples=lambda view: _each(view.tally.failures),
    ),
    Family(
        name="loop_observations_total",
        help="Observations of hosts.",
        samples=lambda view: _alone(view.tally.observed),
    ),
    Family(
        name="loop_busy_seconds_total",
        help="Seconds spent in each phase of rounds.",
        labels=("phase",),
        samples=lambda view: _each(view.tally.seconds),
    ),
    Family(
        name="loop_last_round_seconds",
        help="Seconds that each phase of the last round took.",
        labels=("phase",),
        samples=lambda view: _each(view.last.seconds if view.last else {}),
    ),
    Family(
        name="loop_idle",
        help="1 if the last round found no change.",
        samples=lambda view: _alone(bool(view.last and view.last.idle)),
    ),
    Family(
        name="loop_backoff",
        help="Failed nodes and resources that wait for their next attempt.",
        labels=("sort",),
        samples=_waits,
    ),
    Family(
        name="loop_contested",
        help="Resources that somebody else changes again after each repair.",
        samples=lambda view: _alone(len(view.memory.pace.contested(view.memory.clock()))),
    ),
    Family(
        name="loop_problems",
        help="Problems of the last round and of its plan, by code.",
        labels=("code", "severity"),
        samples=_problems,
    ),
    Family(
        name="changes",
        help="Changes of the last plan that are not applied, by state and problem code.",
        labels=("state", "code"),
        samples=_changes,
    ),
    Family(
        name="notifications_total",
        help="Messages delivered, attempts failed, messages given up.",
        labels=("notification", "result"),
        samples=_notifications,
    ),
    Family(
        name="notifications_pending",
        help="Messages that wait for delivery.",
        labels=("notification",),
        samples=lambda view: _each({one.name: one.pending for one in view.told}),
    ),
    Family(
        name="state_readable",
        help="1 if the state could be read; else all metrics from it are absent.",
        samples=lambda view: _alone(view.figures is not None),
    ),
    Family(
        name="state_bytes",
        help="Size of the state and its log.",
        samples=_of_fleet(lambda figures: _alone(figures.state_bytes)),
    ),
    Family(
        name="replica_running",
        help="1 while the state is replicated; absent where the settings name no replica.",
        samples=_of_fleet(lambda figures: _alone(figures.replicating)),
    ),
    Family(
        name="replica_synced_timestamp_seconds",
        help="Last time at which the copy held all of the state; absent if unknown.",
        samples=lambda view: _alone(view.copied.timestamp() if view.copied else None),
    ),
    Family(
        name="nodes",
        help="Nodes by posture.",
        labels=("state",),
        samples=_of_fleet(lambda figures: _each(figures.nodes)),
    ),
    Family(
        name="node_last_answer_timestamp_seconds",
        help="Last answer of each node; absent for a node that never answered.",
        labels=("node",),
        samples=_of_fleet(lambda figures: _each(figures.answered)),
    ),
    Family(
        name="slots",
        help="Slots by state.",
        labels=("state",),
        samples=_of_fleet(lambda figures: _each(figures.slots)),
    ),
    Family(
        name="project_slots",
        help="Slots that allocations of each project hold.",
        labels=("project",),
        samples=_of_fleet(lambda figures: _each(figures.projects)),
    ),
    Family(
        name="allocations",
        help="Allocations by sync with the plan and by health on their host.",
        labels=("sync", "health"),
        samples=_of_fleet(lambda figures: _pairs(figures.allocations)),
    ),
    Family(
        name="allocation_sync_since_timestamp_seconds",
        help="Per sync state and cause, since when the allocation longest in it is so.",
        labels=("sync", "cause"),
        samples=_of_fleet(lambda figures: _pairs(figures.synced)),
    ),
    Family(
        name="allocation_health_since_timestamp_seconds",
        help="Per health state and cause, since when the allocation longest in it is so.",
        labels=("health", "cause"),
        samples=_of_fleet(lambda figures: _pairs(figures.healthy)),
    ),
    Family(
        name="findings",
        help="Findings of gpuaas doctor, by code: expired leases, quarantines, blocked slots.",
        labels=("code", "sort"),
        samples=_of_fleet(lambda figures: _pairs(figures.findings)),
    ),
    Family(
        name="revocations_pending",
        help="Revocations whose end a host has not shown yet.",
        samples=_of_fleet(lambda figures: _alone(figures.revocations)),
    ),
    Family(
        name="revocations_pending_since_timestamp_seconds",
        help="Start of the oldest pending revocation; absent while there is none.",
        samples=_of_fleet(lambda figures: _alone(figures.owed)),
    ),
)
"""`docs/monitoring.md` explains each."""
