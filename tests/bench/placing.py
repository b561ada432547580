"""Placements per second with every rule on, and with their claims made durable."""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from reconciler import shipped
from reconciler.kinds.registry import KINDS
from reconciler.model.host.capacity import Need
from reconciler.model.plan.plan import Plan
from reconciler.model.plan.work import WaveIntent
from reconciler.model.spec.desired import Desired
from reconciler.model.state.event import Actor
from reconciler.model.state.world import World
from reconciler.planner.core.request import PlanRequest
from reconciler.planner.placement.inventory import read_offers
from reconciler.planner.placement.scheduler import Placer, in_order
from reconciler.planner.plan import plan
from reconciler.store.file.database import Database
from reconciler.store.journal import Journal
from tests import fleets
from tests.bench.measuring import Row, at_least, at_most, scaled
from tests.planner import fleet

SIZES = (1, 1, 1, 1, 1, 1, 2, 2, 4, 8)
HARDWARE = fleets.H100_NODE


def main(work: Path, scale: float) -> None:
    few, many = scaled(1000, scale, least=20), scaled(10000, scale, least=40)
    small, large = fill(few), fill(many)
    for count, each in ((few, small), (many, large)):
        Row(
            topic="place",
            what=f"one request, {count} nodes of eight",
            ours=f"{each * 1e6:.1f} µs, {1 / each:.0f}/s",
            beside="kube-scheduler 100-430/s, Gödel ~1000/s (published, with their API servers)",
            ratio=f"{each * 1e6 / 10:.2f} x",
            reach="<= 10 µs",
            met=each <= 10e-6,
        ).tell()
    Row(
        topic="place",
        what="ten times the nodes",
        ours=f"{large * 1e6:.1f} µs",
        beside=f"{small * 1e6:.1f} µs",
        **at_most(large / small, 1.5),  # type: ignore[arg-type]
    ).tell()
    durable(work, few)


def nodes(count: int) -> Desired:
    documents = [fleets.node(f"n{number}", HARDWARE) for number in range(count)]
    return fleet.desired([fleets.policy(), fleets.family(HARDWARE), *documents])


def needs(gpus: int) -> list[Need]:
    """Shuffled requests for about 95 % of so many GPUs."""
    chance = random.Random(1)
    made: list[Need] = []
    asked = 0
    while asked < 0.95 * gpus:
        size = chance.choice(SIZES)
        made.append(fleet.need(f"r{len(made)}", size))
        asked += size
    return made


def fill(count: int) -> float:
    """CPU seconds a request, from an empty fleet to one that is nearly full."""
    desired = nodes(count)
    offers = read_offers(desired, fleet.world(desired), fleet.NOW, {})
    asked = needs(count * HARDWARE.gpus)
    gc.collect()
    gc.freeze()
    placer = Placer(offers, ())
    placer.place(asked[0])
    started = time.process_time()
    for need in asked[1:]:
        placer.place(need)
    return (time.process_time() - started) / (len(asked) - 1)


def durable(work: Path, count: int) -> None:
    """Six allocations for each of `count` nodes: placed and claimed, and planned as a whole."""
    desired = fleet.desired(document for _, document in fleets.mixed(20 * count + 5))
    world = fleet.world(desired)
    needs = [
        need
        for resource in desired.of("allocation")
        if (need := KINDS["allocation"].needs(resource, desired)) is not None
    ]
    offers = read_offers(desired, world, fleet.NOW, {})
    gc.collect()
    gc.freeze()
    placed = clock(lambda: place_all(Placer(offers, ()), needs))
    made: list[Plan] = []
    planned = clock(lambda: made.append(plan(request(desired, world))))
    claimed = begin(work / "claims", made[0], with_steps=False)
    begun = begin(work / "steps", made[0], with_steps=True)
    each = len(needs) / (placed + claimed)
    Row(
        topic="place",
        what=f"{len(needs)} on {count} nodes, claims safe on disk",
        ours=f"{each:.0f}/s",
        beside=f"{placed:.2f} s placing, {claimed:.2f} s claims and their events",
        **at_least(each / 5000, 1),  # type: ignore[arg-type]
    ).tell()
    Row(
        topic="place",
        what="the same as a plan with every file rendered, claims and steps on disk",
        ours=f"{len(needs) / (planned + begun):.0f}/s",
        beside=f"{planned:.2f} s plan, {begun:.2f} s intent",
    ).tell()


def clock(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def place_all(placer: Placer, needs: Iterable[Need]) -> None:
    for need in in_order(needs, {}):
        assert placer.place(need) is not None, f"{need.ref} found no place"


def request(desired: Desired, world: World) -> PlanRequest:
    return PlanRequest(
        desired=desired,
        world=world,
        now=fleet.NOW,
        templates=shipped.templates(),
        sign=lambda text: "0" * 64,
        origins=lambda files, gone: {},
    )


def begin(folder: Path, made: Plan, *, with_steps: bool) -> float:
    """Seconds to write what comes before any host: one transaction a wave, synced to disk."""
    path, actor = folder / "gpuaas.db", Actor(name="bench")
    Database.create(path, state_id=fleet.STATE_ID, now=fleet.NOW)
    with Database.open(path, write=True) as database:
        journal = Journal(database, actor, lambda: fleet.NOW)
        run = journal.begin_run(made)
        started = time.perf_counter()
        for wave in made.waves:
            refs = {step.ref for step in wave.steps}
            claims = [claim for claim in made.claims if claim.ref in refs]
            journal.begin_wave(
                run, WaveIntent(steps=tuple(wave.steps if with_steps else ()), claims=tuple(claims))
            )
        return time.perf_counter() - started


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
