"""A real cluster as specs: `python -m tests.traces FOLDER` writes 1,213 nodes and their requests.

The data stand in `tests/data/traces/`. A slot is a whole GPU with its share of the node's cores
and memory; requests for a part of one GPU are left out.
"""

from __future__ import annotations

import csv
import gzip
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from tests import fleets

DATA = Path(__file__).parent / "data" / "traces"
ARRIVING = 1.3
"""Requests arrive until this share of the cluster's GPUs has been asked for, as in the paper."""

GPU_MEMORY_MIB = {
    "P100": 16384,
    "T4": 15360,
    "V100M16": 16384,
    "V100M32": 32768,
    "A10": 23028,
    "G2": 24576,
    "G3": 81920,
}


def hardware() -> Iterator[tuple[str, fleets.Hardware]]:
    """Every node of the cluster by name."""
    for row in _rows("openb_node_list_gpu_node.csv"):
        model = row["model"]
        yield (
            row["sn"].replace("openb-", ""),
            fleets.Hardware(
                family=model.lower(),
                model=model,
                memory_mib=GPU_MEMORY_MIB[model],
                gpus=int(row["gpu"]),
                cores=int(row["cpu_milli"]) // 1000,
                memory_gib=int(row["memory_mib"]) // 1024,
            ),
        )


def requests(seed: int, asked: float = ARRIVING) -> tuple[int, ...]:
    """GPUs asked for, one request after the other, shuffled by `seed`, until `asked` of all are."""
    sizes = [
        int(row["num_gpu"])
        for row in _rows("openb_pod_list_multigpu50.csv")
        if row["gpu_milli"] == "1000"
    ]
    random.Random(seed).shuffle(sizes)
    limit = asked * sum(each.gpus for _, each in hardware())
    arrived = next(at for at, gpus in enumerate(accumulate(sizes), 1) if gpus >= limit)
    return tuple(sizes[:arrived])


def allocation_name(position: int) -> str:
    """Names sort in the order of arrival."""
    return f"request-{position:05d}"


def documents(sizes: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The cluster and its requests, each document with its file."""
    nodes = dict(hardware())
    kinds = {each.family: each for each in nodes.values()}
    skus = sorted(set(sizes))
    yield "fleet/policy.yaml", fleets.policy()
    yield "people/olga.yaml", fleets.user("olga")
    for family in sorted(kinds):
        yield f"fleet/families/{family}.yaml", fleets.family(kinds[family])
    for slots in skus:
        yield f"fleet/skus/gpus-{slots}.yaml", fleets.sku(slots, kinds)
    for name, inside in sorted(nodes.items()):
        yield f"nodes/{name}.yaml", fleets.node(name, inside)
    project = fleets.project("trace", ["olga"], [f"gpus-{slots}" for slots in skus], sum(sizes))
    yield "trace/project.yaml", project
    for position, slots in enumerate(sizes):
        name = allocation_name(position)
        yield f"trace/{name}.yaml", fleets.allocation(name, "olga", f"gpus-{slots}", "trace")


def _rows(name: str) -> Iterator[dict[str, str]]:
    with gzip.open(DATA / f"{name}.gz", "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


if __name__ == "__main__":
    written = fleets.write(Path(sys.argv[1]), documents(requests(seed=1)))
    print(f"{written} documents below {sys.argv[1]}")
