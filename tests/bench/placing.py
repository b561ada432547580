"""Placements per second with every rule on, and with their claims made durable."""

from __future__ import annotations

import gc
import random
import sys
import time
from pathlib import Path

from reconciler import shipped
from reconciler.model.capacity import Need
from reconciler.model.desired import Desired
from reconciler.model.event import Actor
from reconciler.model.plan import Plan
from reconciler.model.world import World
from reconciler.planner.capacity import read_offers
from reconciler.planner.placement import Placer
from reconciler.planner.planner import PlanRequest, plan
from reconciler.store.database import Database
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
    """Specs and state in hand, to a plan with rendered files, to claims safe on disk."""
    desired, world = requests(count)
    started = time.perf_counter()
    made = plan(
        PlanRequest(
            desired=desired,
            world=world,
            now=fleet.NOW,
            templates=shipped.templates(),
            sign=lambda text: "0" * 64,
            origins=lambda files: {},
        )
    )
    planned = time.perf_counter() - started
    placed = {claim.allocation_id for claim in made.claims}
    claimed = claim_durably(work, made)
    each = len(placed) / (planned + claimed)
    Row(
        topic="place",
        what=f"plan {len(placed)} allocations on {count} nodes, claims on disk",
        ours=f"{each:.0f}/s ({planned:.2f} s plan, {claimed:.2f} s claims)",
        **at_least(each / 5000, 1),  # type: ignore[arg-type]
    ).tell()


def requests(count: int) -> tuple[Desired, World]:
    """`count` nodes and six allocations for each, nothing of it recorded yet."""
    desired = fleet.desired(document for _, document in fleets.mixed(20 * count + 5))
    return desired, fleet.world(desired)


def claim_durably(work: Path, made: Plan) -> float:
    """Seconds to write the run's claims and open steps, one transaction a wave, synced to disk."""
    path = work / "claims" / "gpuaas.db"
    actor = Actor(name="bench")
    Database.create(path, state_id=fleet.STATE_ID, now=fleet.NOW)
    with Database.open(path, write=True) as database:
        journal = Journal(database, actor, lambda: fleet.NOW)
        run = journal.begin_run(made)
        started = time.perf_counter()
        for wave in made.waves:
            refs = {step.ref for step in wave.steps}
            journal.begin_wave(run, wave.steps, [c for c in made.claims if c.ref in refs])
        return time.perf_counter() - started


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
