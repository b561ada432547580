"""What the store knows: the fleet at a glance, nodes, slots, capacity and events.

No spec is read and nothing is planned, so that a look stays quick however large the fleet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from reconciler.model.capacity import ClaimState
from reconciler.model.event import Event
from reconciler.model.lifecycle import RunState
from reconciler.model.moment import format_age
from reconciler.model.problem import refuse
from reconciler.model.ref import Ref, parse_ref
from reconciler.model.world import DoubtKind, World
from reconciler.operations.allocation_rows import allocation_rows
from reconciler.operations.taking_stock import (
    Stock,
    age_of,
    node_rows,
    sku_rows,
    slot_rows,
    take_stock,
)
from reconciler.operations.views import (
    LastRun,
    NeedsYou,
    NodeRow,
    SkuRow,
    SlotRow,
    Status,
)
from reconciler.operations.wiring import Fleet, without_collector
from reconciler.planner.noting import stray_keys
from reconciler.store import history
from reconciler.store.snapshot import read_world

LAST_EVENTS = 20


def status(fleet: Fleet, project: str = "", login: str = "") -> Status:
    """The fleet at a glance; with `project`, only its allocations.

    With an OS `login`, only what its user owns or has access to.
    """
    now = fleet.now()
    with without_collector(), fleet.reading() as database:
        world = read_world(database)
        stock = take_stock(fleet.settings, world, now)
        last = next(iter(history.runs(database, 1)), None)
    nodes, slots = node_rows(stock), slot_rows(stock)
    ages = [row.age for row in nodes if row.age is not None]
    rows = allocation_rows(fleet.settings, world, stock, project)
    users = _users_of(world, login)
    allocations = tuple(r for r in rows if not login or users & {r.owner, *r.access})
    return Status(
        state_id=world.state_id,
        serial=world.serial,
        at=now.isoformat(timespec="seconds"),
        observed_age=max(ages, default=None),
        nodes=dict(sorted(Counter(row.posture for row in nodes).items())),
        gpus=dict(sorted(Counter(row.state for row in slots).items())),
        capacity=sku_rows(stock),
        needs_you=tuple(_needs_you(world, last, now)),
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


def nodes(fleet: Fleet) -> tuple[NodeRow, ...]:
    return node_rows(_stock(fleet))


def slots(fleet: Fleet) -> tuple[SlotRow, ...]:
    return slot_rows(_stock(fleet))


def capacity(fleet: Fleet) -> tuple[SkuRow, ...]:
    return sku_rows(_stock(fleet))


def events(fleet: Fleet, ref_text: str = "", after: int = 0) -> Iterator[Event]:
    """Events after the sequence number `after`, oldest first; of one resource, or all."""
    ref = str(ref_of(ref_text)) if ref_text else ""
    with fleet.reading() as database:
        yield from history.events(database, ref, after)


def _stock(fleet: Fleet) -> Stock:
    with without_collector(), fleet.reading() as database:
        return take_stock(fleet.settings, read_world(database), fleet.now())


def _users_of(world: World, login: str) -> frozenset[str]:
    """The Users that an OS login stands for; without any, the one of that name."""
    users = (world.recorded[ref] for ref in world.recorded if login and ref.kind == "user")
    named = frozenset(u.ref.name for u in users if login in u.normal["spec"]["osLogins"])
    return named or frozenset((login,))


AFTER = {
    "host_identity_changed": "gpuaas node show {node}",
    "no_root_on_host": "gpuaas node bootstrap --print",
}
"""What to do about a host whose answer asking again would not better."""


def _needs_you(world: World, last: history.Run | None, now: datetime) -> Iterator[NeedsYou]:
    yield from _doors_left_open(world, now)
    for claim in world.claims:
        if claim.state is ClaimState.CLEANUP_BLOCKED:
            where = f"{claim.node}/{claim.slot or '*'}"
            yield NeedsYou(kind="proof", text=f"{where} {claim.problem}", command="gpuaas apply")
    for ref, since in sorted(world.waiting.items(), key=lambda item: (item[1], item[0])):
        age = age_of(since, now)
        waited = "unknown" if age is None else format_age(age)
        yield NeedsYou(
            kind="blocked",
            text=f"{ref} sku_unavailable, waiting {waited}",
            command=f"gpuaas explain {ref}",
        )
    for name, seen in sorted(world.observations.items()):
        if seen.problem:
            recorded = Ref("node", "", name) in world.recorded
            again = "gpuaas plan --refresh" if recorded else "gpuaas node show {node}"
            yield NeedsYou(
                kind="unknown",
                text=f"node/{name} {seen.problem}: {seen.message}",
                command=AFTER.get(seen.problem, again).format(node=name),
            )
    for doubt in world.doubts:
        unseen = doubt.kind is DoubtKind.UNSEEN
        yield NeedsYou(
            kind="unknown",
            text=f"node/{doubt.node} in doubt, {doubt.kind}: {doubt.reason}",
            command=f"gpuaas state rebuild --node {doubt.node}" if unseen else "gpuaas apply",
        )
    if last is not None and last.state in (RunState.FAILED, RunState.INTERRUPTED):
        yield NeedsYou(kind="failed", text=f"{last.id} {last.state}", command="gpuaas events")


def _doors_left_open(world: World, now: datetime) -> Iterator[NeedsYou]:
    """Revocations that a host was not told of, and keys of people's own that lie about."""
    for one in sorted(world.revocations, key=lambda one: (one.since, one.ref)):
        age = age_of(one.since, now)
        pending = "" if age is None else f" {format_age(age)}"
        text = f"revocation of {', '.join(one.people)} on {one.node} pending{pending}"
        yield NeedsYou(kind="alarm", text=f"{text} ({one.ref})", command="gpuaas apply")
    strays = Counter((one.ref, one.login) for one in stray_keys(world))
    for (ref, login), number in sorted(strays.items()):
        what = "a key" if number == 1 else f"{number} keys"
        yield NeedsYou(
            kind="access",
            text=f"{ref}: {what} of people's own in the home of {login}, without effect",
            command="gpuaas grant list",
        )


def ref_of(text: str) -> Ref:
    ref = parse_ref(text)
    if ref is None:
        raise refuse(
            "not_found",
            f"{text!r} is no ref",
            "write kind/project/name, kind/name, or project/name for an allocation",
        )
    return ref
