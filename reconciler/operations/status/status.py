"""`status`: the fleet and its nodes, from what the store knows.

No spec is read and nothing is planned, so that a look stays quick however large the fleet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from reconciler.kinds.user import USERS
from reconciler.model.moment import parse_moment
from reconciler.model.ref import parse_ref
from reconciler.model.state.volume import Volume
from reconciler.model.state.world import World
from reconciler.operations.fleet import Fleet, without_collector
from reconciler.operations.inventory.ages import aged
from reconciler.operations.inventory.allocations import allocation_rows
from reconciler.operations.inventory.diagnosis_context import chart_of
from reconciler.operations.inventory.stock import (
    age_of,
    node_rows,
    sku_rows,
    slot_rows,
    take_stock,
)
from reconciler.operations.inventory.sync import SyncSummary, needs_of, synced
from reconciler.operations.liveness.diagnosis import loop_row
from reconciler.operations.references import insist_on_name
from reconciler.operations.status.page_lifetime import lasts_until
from reconciler.operations.status.slot import stock_now
from reconciler.operations.usage import CardRow, cards_of
from reconciler.operations.views import (
    AllocationRow,
    LastRun,
    NeedsYou,
    NodeRow,
    Status,
)
from reconciler.planner.diagnosis.context import Chart
from reconciler.planner.diagnosis.rules import diagnose
from reconciler.store import queries
from reconciler.store.snapshot import read_world

LAST_EVENTS = 20


def status(
    fleet: Fleet, project: str = "", login: str = "", standing: SyncSummary | None = None
) -> Status:
    """The fleet at a glance; with `project`, only its allocations.

    With an OS `login`, only what its user owns or has access to. With the `standing` of a plan of
    now also what that says of each, and what is wanted and not applied yet.
    """
    return glance(fleet, project, login, standing).status


class Glance(NamedTuple):
    """What there is, and until when it stays so with `rows` of its allocations in sight."""

    status: Status
    lasts_until: Callable[[Sequence[AllocationRow]], datetime | None]


def glance(
    fleet: Fleet, project: str = "", login: str = "", standing: SyncSummary | None = None
) -> Glance:
    """Like `status`, for whoever caches it."""
    now = fleet.now()
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        insist_on_name(fleet, database, world, "project", project)
        stock = take_stock(fleet.settings, world, now)
        last = next(iter(queries.runs(database, 1)), None)
    chart = chart_of(fleet.state, world, stock, last, now)
    waiting = {str(ref) for ref in world.waiting}
    nodes, slots = node_rows(stock), slot_rows(stock)
    ages = [row.age for row in nodes if row.age is not None]
    at_work = chart.run is not None and chart.run.living
    rows = allocation_rows(fleet.settings, world, stock, project, at_work=at_work)
    if standing is not None:
        rows = synced(rows, standing, project)
    of_all = standing is not None and not project
    told = aged(fleet, rows, world.waiting, of_all=of_all)
    users = _users_of(world, login)
    allocations = tuple(r for r in told if not login or users & {r.owner, *r.access})
    found = Status(
        state_id=world.state_id,
        serial=world.serial,
        at=now.isoformat(timespec="seconds"),
        observed_age=max(ages, default=None),
        nodes=dict(sorted(Counter(row.posture for row in nodes).items())),
        gpus=dict(sorted(Counter(row.state for row in slots).items())),
        storage=dict(sorted(Counter(str(v.state) for v in _volumes(world, project)).items())),
        bundles={} if project else _installs(world),
        capacity=sku_rows(stock),
        needs_you=tuple(
            need
            for about, need in (
                *_needs_you(chart),
                *(needs_of(standing, waiting) if standing else ()),
            )
            if not _is_of_another(about, project)
        ),
        suspended=world.suspensions,
        pending=None if standing is None else standing.pending,
        loop=loop_row(fleet),
        allocations=allocations,
        last_run=LastRun(
            id=last.id,
            state=last.state,
            started=last.started,
            actor=last.actor,
            commit=last.commit,
        )
        if last
        else None,
    )
    planned = standing.next_moment if standing else ""
    return Glance(found, lambda shown: lasts_until(chart, stock, shown, planned))


def cards(fleet: Fleet, project: str = "", login: str = "") -> tuple[CardRow, ...]:
    """The cards of all allocations, as their hosts last told of them, limited as in `status`."""
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        insist_on_name(fleet, database, world, "project", project)
        stock = take_stock(fleet.settings, world, fleet.now())
    users = _users_of(world, login)
    rows = allocation_rows(fleet.settings, world, stock, project)
    refs = [r.ref for r in rows if not login or users & {r.owner, *r.access}]
    known = (world.recorded.get(ref) for text in refs if (ref := parse_ref(text)))
    return tuple(card for one in known if one for card in cards_of(one, world))


def only_stale(found: Status, seconds: float) -> Status:
    """Only allocations whose host has not answered for so long, or never."""
    now = parse_moment(found.at)
    rows = [
        row
        for row in found.allocations
        if now is None or (age := age_of(row.observed_at, now)) is None or age >= seconds
    ]
    return replace(found, allocations=tuple(rows))


def nodes(fleet: Fleet) -> tuple[NodeRow, ...]:
    return node_rows(stock_now(fleet))


def _needs_you(chart: Chart) -> Iterator[tuple[str, NeedsYou]]:
    for one in diagnose(chart):
        if one.needs:
            need = NeedsYou(kind=one.needs, text=one.text, command=one.command, code=one.code)
            yield one.about, need


def _is_of_another(about: str, project: str) -> bool:
    """Whether this is none of the business of who asks about one project."""
    kind, *words = about.split("/")
    whose = words[0] if len(words) == 2 or kind == "project" else project
    return project not in ("", whose)


def _installs(world: World) -> Mapping[str, int]:
    return dict(sorted(Counter(one.state.value for one in world.installs).items()))


def _volumes(world: World, project: str) -> Iterator[Volume]:
    return (one for ref, one in world.volumes.items() if project in ("", ref.project))


def _users_of(world: World, login: str) -> frozenset[str]:
    """The Users that an OS login stands for; without any, the one of that name."""
    users = USERS.recorded(world) if login else ()
    named = frozenset(u.ref.name for u in users if login in USERS.applied(u).os_logins)
    return named or frozenset((login,))
