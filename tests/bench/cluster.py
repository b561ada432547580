"""A real cluster: validate it, plan it, and see how many of its 6,212 GPUs are given out."""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from reconciler.planner.placement.inventory import Offer, read_offers
from reconciler.planner.placement.scheduler import Placer, in_order
from tests import traces
from tests.bench import prepared
from tests.bench.measuring import Row, memory, run, scaled, seconds, taking_turns
from tests.planner import fleet

BLOCKED = 3
SEEDS = range(1, 11)
PUBLISHED = {
    1.0: "Random 81.28 %, BestFit 95.62 %, FGD 97.09 %",
    1.3: "Random 90.27 %, BestFit 95.74 %, FGD 97.18 %",
}


def main(work: Path, scale: float) -> None:
    shares(scaled(len(SEEDS), scale, least=1))
    if scale >= 1:
        commands(work)


def shares(rounds: int) -> None:
    """The share of the cluster's GPUs given out, by how many have been asked for."""
    offers = all_offers()
    total = sum(len(offer.slots) for offer in offers)
    for asked, published in PUBLISHED.items():
        arriving, at_once = [], []
        for seed in list(SEEDS)[:rounds]:
            sizes = traces.requests(seed, asked)
            arriving.append(given_out(offers, sizes) / total)
            at_once.append(given_out(offers, batched(sizes)) / total)
        for how, found in (("in order of arrival", arriving), ("as one batch", at_once)):
            Row(
                topic="cluster",
                what=f"GPUs given out {how}, {100 * asked:.0f} % asked for",
                ours=f"{100 * statistics.mean(found):.2f} %, mean of {rounds}",
                beside=f"{published} (published; there CPU, memory and shared GPUs count too)",
            ).tell()


def all_offers() -> tuple[Offer, ...]:
    desired = fleet.desired(
        document
        for _, document in traces.documents(())
        if document["kind"] in ("Node", "NodeFamily")
    )
    return read_offers(desired, fleet.world(desired), fleet.NOW, {})


def given_out(offers: Sequence[Offer], sizes: Iterable[int]) -> int:
    """GPUs placed one request after the other; who does not fit is refused for good."""
    placer = Placer(offers, ())
    families = tuple(sorted({offer.spec.family for offer in offers}))
    placed = 0
    for position, slots in enumerate(sizes):
        need = fleet.need(traces.allocation_name(position), slots, families=families)
        if placer.place(need) is not None:
            placed += slots
    return placed


def batched(sizes: Sequence[int]) -> list[int]:
    """In the order of a plan that sees them all at once."""
    needs = [fleet.need(traces.allocation_name(at), slots) for at, slots in enumerate(sizes)]
    return [need.slots for need in in_order(needs, {})]


def commands(work: Path) -> None:
    """The real commands on the real files, every node observed by its imagined host."""
    sizes = traces.requests(seed=1)
    folder = prepared.on_disk(work / "cluster", traces.documents(sizes))
    prepared.imagine("look", folder)
    prepared.forget_cache(folder)
    cold = run(prepared.VALIDATE, folder)
    tell("validate, cold", f"{seconds(cold.seconds)}, {memory(cold)}")
    prepared.forget_cache(folder)
    first = run([*prepared.PLAN, "--summary"], folder, codes=(BLOCKED,))
    given = re.search(r"GPUs 0 -> \d+ of \d+", first.output)
    shown = f"{seconds(first.seconds)}, {memory(first)}, {given[0] if given else 'no GPUs'}"
    tell(f"plan of {len(sizes)} requests, cold", shown)
    (again,) = taking_turns(3, lambda: run([*prepared.PLAN, "--summary"], folder, codes=(BLOCKED,)))
    tell("the same, files unchanged", f"{seconds(again.seconds)}, {memory(again)}")


def tell(what: str, ours: str) -> None:
    Row(topic="cluster", what=what, ours=ours).tell()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
