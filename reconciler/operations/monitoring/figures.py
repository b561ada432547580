"""Figures of a fleet, from its state alone: no spec is read, no host asked, no plan made.

They are counted again only when the state has changed or a while has gone by, so that a round with
nothing to do stays cheap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from reconciler.model.codes import CODES
from reconciler.model.moment import parse_moment
from reconciler.model.plan.plan import Plan
from reconciler.model.records import dataclass
from reconciler.model.symptom import SYMPTOMS
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.inventory.ages import aged
from reconciler.operations.inventory.allocations import allocation_rows
from reconciler.operations.inventory.diagnosis_context import chart_of
from reconciler.operations.inventory.stock import node_rows, slot_rows, take_stock
from reconciler.operations.inventory.sync import standing_of, synced
from reconciler.planner.diagnosis.context import Chart
from reconciler.planner.diagnosis.rules import RULES
from reconciler.store import queries
from reconciler.store.backup import litestream
from reconciler.store.file.lock import holder
from reconciler.store.serial import read_stamp
from reconciler.store.snapshot import read_world

OLDEST = timedelta(minutes=5)
"""Time alone changes some of them: leases end."""

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """`allocations` by sync and health, `findings` by code and sort; moments are Unix times.

    `synced` and `healthy` tell by word and cause since when the one that stands so longest does.

    `answered` is when each node last answered, without those that never did; `owed` is since when
    the oldest revocation waits for its host, `replicating` None where no replica is named.
    """

    nodes: Mapping[str, int]
    slots: Mapping[str, int]
    allocations: Mapping[tuple[str, str], int]
    synced: Mapping[tuple[str, str], float]
    healthy: Mapping[tuple[str, str], float]
    projects: Mapping[str, int]
    findings: Mapping[tuple[str, str], int]
    answered: Mapping[str, float]
    revocations: int
    owed: float | None
    state_bytes: int
    replicating: bool | None


@dataclass(slots=True, kw_only=True)
class LastFigures:
    """Knows the figures of the last look. `figures` raises ProblemError as any reading does.

    `plan` is what is still to be done by the last one.
    """

    stamp: str = ""
    plan: Plan | None = None
    at: datetime | None = None
    known: Figures | None = None

    def figures(self, fleet: Fleet, plan: Plan | None) -> Figures:
        now = fleet.now()
        with fleet.reading() as database:
            stamp = read_stamp(database)
        fresh = self.at is not None and timedelta(0) <= now - self.at < OLDEST
        if self.known is None or not fresh or stamp != self.stamp or plan is not self.plan:
            self.known = count(fleet, plan)
            self.stamp, self.plan, self.at = stamp, plan, now
        return self.known


def count(fleet: Fleet, plan: Plan | None) -> Figures:
    """`plan` says how allocations stand to what is wanted; without one that is unknown."""
    now = fleet.now()
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        stock = take_stock(fleet.settings, world, now)
        last = next(iter(queries.runs(database, 1)), None)
        slots = slot_rows(stock)
        chart = chart_of(fleet.state, world, stock, last, now)
        at_work = chart.run is not None and chart.run.living
        rows = allocation_rows(fleet.settings, world, stock, at_work=at_work)
        if plan is not None:
            rows = synced(rows, standing_of(plan))
        told = aged(fleet, rows, world.waiting, of_all=plan is not None)
        seen = {offer.name: offer.observation for offer in stock.offers}
        since = [_unix(one.since) for one in world.revocations]
        return Figures(
            nodes=Counter(str(row.posture) for row in node_rows(stock)),
            slots=Counter(str(row.state) for row in slots),
            allocations=Counter((row.sync or UNKNOWN, row.health) for row in told),
            synced=_oldest((row.sync, row.sync_cause, row.sync_since) for row in told),
            healthy=_oldest((row.health, row.health_cause, row.health_since) for row in told),
            projects=Counter(row.allocation.split("/")[1] for row in slots if row.allocation),
            findings=_findings(chart),
            answered={
                name: at
                for name, one in seen.items()
                if one is not None and (at := _unix(one.last_answer)) is not None
            },
            revocations=len(world.revocations),
            owed=min((at for at in since if at is not None), default=None),
            state_bytes=_size(fleet),
            replicating=_replicating(fleet),
        )


def _oldest(told: Iterable[tuple[str, str, str]]) -> Mapping[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for word, cause, since in told:
        if word and (at := _unix(since)) is not None:
            found[word, cause] = min(at, found.get((word, cause), at))
    return found


def _findings(chart: Chart) -> Mapping[tuple[str, str], int]:
    """Every rule has its number, so that one that finds nothing is told from one that is away."""
    found: Counter[tuple[str, str]] = Counter({(r.code, r.sort.value): 0 for r in RULES})
    for rule in RULES:
        for seen in rule.find(chart):
            known = seen.code in CODES or seen.code in SYMPTOMS
            found[seen.code if known else rule.code, rule.sort.value] += 1
    return found


def _unix(text: str) -> float | None:
    moment = parse_moment(text)
    return None if moment is None else moment.timestamp()


def _replicating(fleet: Fleet) -> bool | None:
    """Whether somebody copies; how far they have come only the other end knows."""
    if not fleet.settings.replica.url:
        return None
    return holder(fleet.state / litestream.FOLDER / litestream.LOCK) is not None


def _size(fleet: Fleet) -> int:
    """Of the database and its log; what is not there takes no room."""
    total = 0
    for name in (fleet.database_file.name, f"{fleet.database_file.name}-wal"):
        path = fleet.state / name
        total += path.stat().st_size if path.is_file() else 0
    return total
